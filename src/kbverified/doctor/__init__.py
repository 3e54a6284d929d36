"""``kbverified doctor``: what this machine can do for a run, what it cannot, and what to do about it.

Looks and never sets: no clock, no mode, no CUDA context. Each line is ok, warn (it works, and something is worse than
it could be) or fail (it does not work), with the next thing to do.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kbverified.doctor.finding import Finding
from kbverified.exit_codes import EXIT_FAILED, EXIT_MACHINE

EXAMPLES = """\
examples:
  kbverified doctor                  for whatever device there is
  kbverified doctor --device cuda    what a GPU needs and is missing is a failure
  kbverified doctor --json

exit code: 0 nothing fails, 1 something fails, 2 usage. Takes some ten seconds: torch is imported, compilers are tried.
"""

Sections = dict[str, list[Finding]]


def add_parser(subparsers: Any) -> None:
    """Add ``doctor`` to the commands."""
    parser = subparsers.add_parser(
        "doctor",
        help="look at GPU, compilers, sandbox, clock and disk, and say what to do",
        description="Looks at this machine and says what a run needs, what is missing, and what to do next.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", choices=("auto", "cuda", "cpu"), default="auto", help="what the run is to use")
    parser.add_argument("--json", action="store_true", help="the findings as JSON")
    parser.set_defaults(run=run, fault_code=EXIT_MACHINE)


def run(arguments: argparse.Namespace) -> int:
    """Look, print; the exit code."""
    from kbverified.cli import reader_may_leave
    from kbverified.doctor.report import print_findings

    found = examine(arguments.device)
    code = EXIT_FAILED if failures(found) else 0
    with reader_may_leave():
        if arguments.json:
            print(as_json(found, arguments.device, code))
        else:
            print_findings(found)
    return code


def failures(sections: Sections) -> list[Finding]:
    """Those that do not work."""
    return [finding for found in sections.values() for finding in found if finding.status == "fail"]


def as_json(sections: Sections, device: str, code: int) -> str:
    """``findings``: one object per line, with its section; the others say for what and how it came out."""
    from dataclasses import asdict

    from kbverified import __version__

    lines = [{"section": name, **asdict(finding)} for name, found in sections.items() for finding in found]
    return json.dumps({"kbverified": __version__, "device": device, "exit_code": code, "findings": lines}, indent=1)


def examine(device: str) -> Sections:
    """All findings, by section, in the order in which a run meets their subjects."""
    from kbverified.check.place import build_root
    from kbverified.check.question import checkout
    from kbverified.doctor import gpus, machine, sandboxes, software
    from kbverified.doctor.finding import look

    root = checkout()
    state = gpus.Machine((), "not asked for: --device cpu", None) if device == "cpu" else gpus.read()
    wanted = "cuda" if device == "cuda" or (device == "auto" and state.why_none is None) else "cpu"
    try:
        facts: Mapping[str, Any] | str = software.torch_facts()
    except Exception as error:
        facts = f"cannot be imported: {error}"
    known: Mapping[str, Any] = {} if isinstance(facts, str) else facts
    arch = next((s.gpu.compute_capability for s in state.gpus if s.visible), None) if wanted == "cuda" else None

    def gpu_lines() -> Iterator[Finding]:
        if device != "cpu":
            yield from gpus.findings(state, device, known)
            yield from gpus.driver(state, known.get("cuda"))

    return {
        "Machine": [*look("machine", machine.system), *look("limits", machine.limits)],
        "Software": [*look("packages", software.packages), *look("torch", lambda: software.torch(facts, wanted))],
        "GPU": look("GPU", gpu_lines),
        "Compilers": look("compilers", lambda: software.compilers(known.get("cuda"), arch)),
        "Sandbox": [
            *look("sandbox", sandboxes.levels),
            *look("worker's folder", lambda: sandboxes.reaches(build_root(root))),
            *look("evaluator", sandboxes.evaluator),
        ],
        "Folders": look("folders", lambda: machine.folders(root)),
    }


def summary(sections: Sections) -> Sequence[str]:
    """What it comes to, in a line or two."""
    count = {
        status: sum(f.status == status for found in sections.values() for f in found) for status in ("fail", "warn")
    }
    if count["fail"]:
        return [f"{count['fail']} of these do not work; do what stands behind the arrows, first things first."]
    done = "All of it works" + (f", {count['warn']} with a remark." if count["warn"] else ".")
    trial = "kbverified check generations/bundled-honest/bundled/level1_1/1.py --problem bundled/level1_1"
    return [f"{done} To see it work: {trial}"]
