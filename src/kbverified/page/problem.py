"""What the page says of one problem: its source, its sizes, and what its audit found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kbverified.keys import ProblemKey
from kbverified.page.details import DIGITS, source_text, tail
from kbverified.page.packing import pairs, rounded
from kbverified.records.problem import ProblemRecord, TensorSpec


def of_problem(root: Path, key: ProblemKey, audit: ProblemRecord | None) -> dict[str, Any]:
    """One problem's detail; ``audit`` None where it was not audited. Raises OSError for an unreadable source."""
    sha256 = audit.provenance.problem_sha256 if audit is not None else None
    found: dict[str, Any] = {"source": source_text(key.source_path(root), sha256), "facts": [], "laws": []}
    if audit is None:
        return found
    found["detail"] = tail(audit.reason or audit.detail)
    found["facts"] = pairs(
        [
            ("inputs", ", ".join(_shape(spec) for spec in audit.inputs)),
            ("outputs", ", ".join(_shape(spec) for spec in audit.outputs)),
            ("input bytes", audit.input_bytes),
            ("weight bytes", audit.weight_bytes),
            ("output bytes", audit.output_bytes),
            ("FLOPs", audit.flops),
            ("reference's peak bytes", audit.reference_peak_bytes),
            ("usable", "yes" if audit.usable else "no"),
            ("degenerate", None if audit.degenerate is None else ("yes" if audit.degenerate else "no")),
        ]
    )
    found["laws"] = [
        {
            "law": d.distribution,
            "applicable": d.applicable,
            "why_not": tail(d.why_not),
            "replay": rounded(d.replay_tolerance, DIGITS),
            "zeros": rounded(d.zeros_tolerance, DIGITS),
            "mean": rounded(d.mean_tolerance, DIGITS),
        }
        for d in audit.distributions
    ]
    return found


def _shape(spec: TensorSpec | None) -> str:
    return "no tensor" if spec is None else f"{spec.dtype} {' × '.join(map(str, spec.shape)) or 'scalar'}"
