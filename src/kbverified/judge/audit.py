"""audit-problem: what a problem's reference gives, and which answers that compute nothing would pass on it.

Seeds are fixed here, so that an audit repeats exactly; a trial's seeds never are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from kbverified import layout, precision
from kbverified.correctness import Comparison, combine, compare, compare_all
from kbverified.devices import open_device, prepare
from kbverified.devices.base import Device
from kbverified.distributions import Inputs
from kbverified.judge import hardened_audit
from kbverified.judge.party import InfrastructureFault, Settings
from kbverified.judge.reference import Reference
from kbverified.judge.stage import leased
from kbverified.judge.watchdog import Watchdog
from kbverified.lease import Lease
from kbverified.protocol import (
    AUDIT_MODE,
    AUDIT_SEEDS,
    AUDIT_WEIGHT_SEEDS,
    DEGENERATE_MAX_ABS,
    DISTRIBUTIONS,
    NON_DISCRIMINATING_TAU,
    STANDARD_DISTRIBUTION,
)
from kbverified.records.base import DeviceInfo
from kbverified.records.problem import DistributionAudit, TensorSpec
from kbverified.roofline.needs import count_work, input_output_needs


def run(problem: Path, settings: Settings) -> tuple[dict[str, Any], DeviceInfo, Lease]:
    """Audit one problem file; (fields of its record, device, lease). A broken problem's fields say so.

    Raises InfrastructureFault where there is no device, it is too small, or it is lost. After ``settings.timeout_s``,
    without what it waited for the device, it ends this process.
    """
    watchdog = Watchdog(settings.timeout_s, f"the audit of {problem}")
    torch.set_grad_enabled(False)
    if settings.threads:
        torch.set_num_threads(settings.threads)
    prepare(settings.device)
    reference: Reference | None = None
    work: dict[str, int | None] = {}
    fields: dict[str, Any] = {}
    with watchdog.watching():
        try:
            reference = Reference(problem)
            work = count_work(reference)
        except Exception as error:  # a problem's own code may raise anything; the record says what
            fields = _broken(error)
    with leased(settings.device, measuring=False) as held, watchdog.watching():
        device = open_device(settings.device, held.gpu)
        precision.set_mode(AUDIT_MODE)
        info = device.info()
        if reference is not None:
            try:
                fields = {**audit(reference, device, work), **work}
            except Exception as error:  # the same: a lack of memory and a lost device are not the problem's
                if device.is_machines(error):
                    raise InfrastructureFault(f"{problem}: {error}") from error
                fields = _broken(error)
            else:  # last: a NaN among inputs may end the device's context, and everything else is known by now
                fields.update(input_output_needs(reference, device))
    return fields, info, held


def _broken(error: Exception) -> dict[str, Any]:
    return {"usable": False, "detail": f"{type(error).__name__}: {error}"[:2000]}


def audit(reference: Reference, device: Device, work: Mapping[str, int | None]) -> dict[str, Any]:
    """Audit one problem; ``work`` are its FLOPs. Returns the fields of its record that the audit decides.

    Raises codec.CodecError, or whatever the reference raises under the original inputs: the problem is then unusable.
    """
    reference.place(device)
    found = _sizes(reference, device)
    rows = [_one_distribution(reference, device, name) for name in DISTRIBUTIONS]
    largest = [row.max_abs for row in rows if row.applicable and row.max_abs is not None]
    degenerate = bool(largest) and max(largest) <= DEGENERATE_MAX_ABS
    if degenerate:
        degenerate = _still_degenerate(reference, device)
    replays = [row.replay_tolerance for row in rows if row.applicable]
    return {
        **found,
        "hardened": hardened_audit.audit(reference, device, work, found),
        "usable": True,
        "distributions": rows,
        "degenerate": degenerate,
        "non_discriminating": bool(replays)
        and all(value is not None and value <= NON_DISCRIMINATING_TAU for value in replays),
        "init_inputs": reference.encoded_init_inputs(),
    }


def _sizes(reference: Reference, device: Device) -> dict[str, Any]:
    """Shapes, bytes and the reference's peak memory, from one forward on the original inputs."""
    inputs = reference.draw(STANDARD_DISTRIBUTION, 0)
    device.release_cached()
    device.reset_peak()
    result = reference.forward(inputs)
    peak = device.peak_bytes()
    outputs = layout.leaves(result)
    if not outputs:
        raise TypeError(f"forward returned {type(result).__name__}, which holds no tensor")
    output_bytes = sum(t.numel() * t.element_size() for t in outputs)
    found = {
        "inputs": _argument_specs(inputs),
        "outputs": [layout.spec_of(t) for t in outputs],
        "output_structure": layout.structure(result),
        "inputs_made_on": inputs.made_on,
        "input_bytes": inputs.nbytes,
        "output_bytes": output_bytes,
        "weight_bytes": reference.weight_bytes(),
        "min_bytes": inputs.nbytes + reference.weight_bytes() + output_bytes,
        "reference_peak_bytes": peak,
    }
    return found


def _argument_specs(inputs: Inputs) -> list[TensorSpec | None]:
    """One entry per positional argument: a spec for a tensor, None for anything else."""
    return [
        layout.spec_of(inputs.tensors[item["tensor"]]) if isinstance(item, dict) and "tensor" in item else None
        for item in inputs.encoded
    ]


def _one_distribution(reference: Reference, device: Device, name: str) -> DistributionAudit:
    """Run all seeds under one law and compare the first output with every answer that computes nothing."""
    try:
        inputs = reference.draw(name, 0)
        base = [t.detach() for t in layout.leaves(reference.forward(inputs))]
        trivial = _trivial(base, inputs)
        del inputs
        replays = []
        for seed in range(1, AUDIT_SEEDS):
            other = layout.leaves(reference.forward(reference.draw(name, seed)))
            replays.append(compare_all(other, base))
            del other
    except (RuntimeError, ValueError, IndexError, TypeError, ArithmeticError) as error:
        if device.is_machines(error):
            raise
        return DistributionAudit(distribution=name, applicable=False, why_not=f"{type(error).__name__}: {error}"[:300])
    nonfinite = trivial["zeros"].reference_nonfinite + sum(r.nan_count + r.inf_count for r in replays)
    if nonfinite:
        return DistributionAudit(
            distribution=name, applicable=False, why_not=f"the reference gives {nonfinite} values that are NaN or Inf"
        )
    rms = trivial["zeros"].reference_rms
    return DistributionAudit(
        distribution=name,
        applicable=True,
        max_abs=trivial["zeros"].reference_max_abs,
        rms=rms,
        zeros_tolerance=trivial["zeros"].critical_tolerance,
        mean_tolerance=trivial["mean"].critical_tolerance,
        input_tolerance=trivial["input"].critical_tolerance if "input" in trivial else None,
        replay_tolerance=max(r.critical_tolerance or 0.0 for r in replays),
        input_independent=all(r.equal for r in replays),
    )


def _trivial(base: list[torch.Tensor], inputs: Inputs) -> dict[str, Comparison]:
    """Zeros, the mean everywhere, and the first input itself, each against the reference's outputs."""
    found = {
        "zeros": combine([compare(_constant(0.0, b), b.reshape(-1)) for b in base]),
        "mean": combine([compare(_constant(_mean(b), b), b.reshape(-1)) for b in base]),
    }
    if len(base) == 1 and inputs.tensors and inputs.tensors[0].shape == base[0].shape:
        found["input"] = compare(inputs.tensors[0], base[0])
    return found


def _mean(tensor: torch.Tensor) -> float:
    value = tensor.double().mean().item() if tensor.numel() < 1 << 26 else tensor.mean(dtype=torch.float64).item()
    return value if value == value and abs(value) != float("inf") else 0.0


def _constant(value: float, like: torch.Tensor) -> torch.Tensor:
    """A flat tensor of one value that takes no memory."""
    return torch.full((1,), value, dtype=torch.float64, device=like.device).expand(like.numel())


def _still_degenerate(reference: Reference, device: Device) -> bool:
    """Whether the output stays at zero under other weights and all seeds and laws as well."""
    for weight_seed in AUDIT_WEIGHT_SEEDS:
        reference.model = reference.construct(weight_seed)
        reference.place(device)
        for name in DISTRIBUTIONS:
            for seed in range(AUDIT_SEEDS):
                outputs = layout.leaves(reference.forward(reference.draw(name, seed)))
                if any(t.numel() and t.abs().amax().item() > DEGENERATE_MAX_ABS for t in outputs):
                    return False
    return True
