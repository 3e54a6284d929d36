"""Which hardened laws a problem's reference takes, and which of them tell its answers apart. Seeds are fixed here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from kbverified import layout
from kbverified.devices.base import Device
from kbverified.hardened.laws import LAWS
from kbverified.judge import oracle
from kbverified.judge.reference import Reference
from kbverified.judge.trial_errors import errors_of
from kbverified.protocol import HARDENED_ORACLE_FLOPS_MAX, HARDENED_REFERENCE_ERROR_MAX
from kbverified.records.problem import HardenedAudit, ProblemRecord


def audit(
    reference: Reference, device: Device, work: Mapping[str, int | None], sizes: Mapping[str, Any]
) -> tuple[HardenedAudit, ...]:
    """One entry per law, in order. ``work`` and ``sizes`` are fields of the problem's record that are known already.

    Raises only for a lack of memory or a lost device.
    """
    known = {name: sizes[name] for name in ("weight_bytes", "reference_peak_bytes")} | {"flops": work.get("flops")}
    record = ProblemRecord.model_construct(**known)
    return tuple(_one_law(reference, device, record, law) for law in LAWS)


def _one_law(reference: Reference, device: Device, record: ProblemRecord, law: str) -> HardenedAudit:
    """As the law draws or, where the reference takes no negative numbers, its absolute values."""
    found = None
    for positive in (False, True):
        try:
            found = _try(reference, record, law, positive)
        except (RuntimeError, ValueError, IndexError, TypeError, ArithmeticError) as error:
            if device.is_machines(error):
                raise
            why = f"{type(error).__name__}: {error}"[:300]
            found = HardenedAudit(law=law, applicable=False, why_not=why)
        if found.applicable:
            return found
    assert found is not None
    return found


def _try(reference: Reference, record: ProblemRecord, law: str, positive: bool) -> HardenedAudit:
    inputs, drawn = reference.draw_law(law, 0, positive)
    if not any(key.isdigit() for key in drawn):
        return HardenedAudit(law=law, applicable=False, why_not="no input is a float tensor that may be changed")
    expected = layout.leaves(reference.forward(inputs))
    if not all(bool(torch.isfinite(t).all()) for t in expected if t.is_floating_point()):
        return HardenedAudit(law=law, applicable=False, why_not="the reference is not finite")
    found = oracle.consult(reference, record, inputs, expected, HARDENED_ORACLE_FLOPS_MAX)
    del inputs
    replay = errors_of(found, expected, layout.leaves(reference.forward(reference.draw_law(law, 1, positive)[0])))
    own = replay.reference_scaled_error
    if own is not None and own > HARDENED_REFERENCE_ERROR_MAX:
        why = f"the reference itself is off by {own:.2g} of the output's scale"
        return HardenedAudit(law=law, applicable=False, why_not=why, replay=replay)
    return HardenedAudit(law=law, applicable=True, positive=positive, replay=replay)
