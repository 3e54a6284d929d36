"""The oracle of a trial: the reference in float64 on the same private inputs, or, with a reason, the reference itself.

Weights and inputs are those of the trial, cast exactly; the generator is reseeded, and random numbers are drawn in
float32 and cast (modes.py). What the float64 forward is worth is tested and never assumed: it has to give
float64, to be finite, and to agree with the reference up to protocol.ORACLE_AGREES_RMS.

Nothing here can end a trial: whatever goes wrong is a reason, and the reference stands in. Its own error is then taken
from inputs moved by one unit in the last place: what that does to the output no arithmetic of that dtype avoids.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from kbverified import codec, layout
from kbverified.distributions import DTYPES, Inputs
from kbverified.judge.modes import Float32Random, IndexSources
from kbverified.judge.reference import Reference
from kbverified.protocol import (
    COMPARE_CHUNK_ELEMENTS,
    FORWARD_SEED,
    ORACLE_AGREES_RMS,
    ORACLE_FLOPS_MAX,
    ORACLE_MEMORY_SHARE,
    ORACLE_SLICE_LIMIT,
    ORACLE_SLICES_MAX,
    ORACLE_UNCOUNTED_ACTIVATIONS,
)
from kbverified.records.problem import ProblemRecord
from kbverified.records.trials import OracleKind
from kbverified.scaled_error import Choice, ScaledError, scaled_error

Tensors = list[torch.Tensor]


@dataclass
class Oracle:
    """Outputs to judge by: float64 where ``kind`` is not ``reference``, else the reference's own."""

    kind: OracleKind
    outputs: Tensors
    why_not_fp64: str | None = None
    own: dict[int, ScaledError] = field(default_factory=dict)
    """The reference's errors, by position of the floating-point outputs; empty where they could not be had."""
    choices: dict[int, Choice] = field(default_factory=dict)
    """Of integer outputs that are indices: where they came from, by position among the outputs."""


class NoOracle(Exception):
    """Why there is no float64 oracle for a trial. Never leaves this module."""


def consult(
    reference: Reference,
    audit: ProblemRecord,
    inputs: Inputs,
    expected: Tensors,
    flops_max: Mapping[str, float] = ORACLE_FLOPS_MAX,
) -> Oracle:
    """The oracle of one trial. ``expected``: the reference's outputs on these inputs. Never raises for lack of memory
    or for what the problem's code does in float64: that is a reason. A lost device is an error."""
    assert reference.device is not None
    try:
        return _fp64(reference, audit, inputs, expected, flops_max)
    except NoOracle as reason:
        why = str(reason)
    except Exception as error:  # the problem's own code, in a dtype that it was not written for
        if reference.device.is_lost(error):
            raise
        why = f"{type(error).__name__}: {error}"[:300]
        if reference.device.is_out_of_memory(error):
            why = "the device had too little memory for it"
    reference.device.release_cached()
    return Oracle("reference", expected, why, own=_nudged(reference, inputs, expected))


def _fp64(
    reference: Reference, audit: ProblemRecord, inputs: Inputs, expected: Tensors, flops_max: Mapping[str, float]
) -> Oracle:
    assert reference.device is not None
    most = flops_max[reference.device.kind]
    if audit.flops is not None and audit.flops > most:
        raise NoOracle(f"{audit.flops:.2g} FLOPs in float64, at most {most:.2g} are spent on a {reference.device.kind}")
    slices = _slices_needed(reference, audit, inputs, expected)
    twin = converted(reference.model, torch.Tensor.double)
    wanted = [t for t in expected if not t.is_floating_point()]
    with _default_dtype(torch.float64), Float32Random(), IndexSources(bool(wanted) and slices == 1) as sources:
        if slices == 1:
            outputs = forward(twin, inputs, torch.Tensor.double)
        else:
            outputs = _sliced(reference, twin, inputs, expected, slices)
    reference.device.synchronize()
    own = _check(outputs, expected, reference.dtype)
    choices = {i: c for i, t in enumerate(outputs) if (c := sources.choice(t)) is not None}
    return Oracle("fp64" if slices == 1 else "fp64_sliced", outputs, own=own, choices=choices)


def _check(outputs: Tensors, expected: Tensors, dtype: str) -> dict[int, ScaledError]:
    """The reference's own errors. Raises NoOracle where the float64 forward is not its function to more digits."""
    own: dict[int, ScaledError] = {}
    if [t.shape for t in outputs] != [t.shape for t in expected]:
        raise NoOracle("its outputs have other shapes in float64")
    for index, (mine, theirs) in enumerate(zip(outputs, expected, strict=True)):
        if mine.is_floating_point() != theirs.is_floating_point():
            raise NoOracle(f"output {index} is {layout.spec_of(mine).dtype} in float64")
        if not mine.is_floating_point():
            continue
        if mine.dtype != torch.float64:
            raise NoOracle(f"output {index} is {layout.spec_of(mine).dtype} in float64: the forward fixes a dtype")
        own[index] = apart = scaled_error(theirs, mine)
        if apart.scaled is None:
            raise NoOracle(f"output {index} is not finite in float64, or in the reference")
        if apart.rms is None:
            if apart.scaled > 0.0:
                raise NoOracle(f"output {index} is zero in float64 and not in the reference")
        elif apart.rms > ORACLE_AGREES_RMS[dtype]:
            raise NoOracle(
                f"output {index} in float64 and the reference are {apart.rms:.2g} apart (relative rms): random numbers "
                "of its own, or noise"
            )
    return own


def forward(model: torch.nn.Module, inputs: Inputs, cast: Callable[[torch.Tensor], torch.Tensor]) -> Tensors:
    """Outputs of a model on inputs whose floating tensors are cast, the generator reseeded before."""
    return _run(model, inputs.encoded, [cast(t) if t.is_floating_point() else t for t in inputs.tensors])


def _run(model: torch.nn.Module, encoded: Any, tensors: Tensors) -> Tensors:
    arguments = codec.decode(encoded, tensors)
    torch.manual_seed(FORWARD_SEED)
    with torch.no_grad():
        return layout.leaves(model(*arguments))


def converted(model: torch.nn.Module, cast: Callable[[torch.Tensor], torch.Tensor]) -> torch.nn.Module:
    """A deep copy whose floating tensors, also those that are plain attributes, are cast: never both copies at once."""
    memo: dict[int, Any] = {}
    for module in model.modules():
        held = [*module._parameters.values(), *module._buffers.values(), *vars(module).values()]
        for tensor in held:
            if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point() or id(tensor) in memo:
                continue
            made: torch.Tensor = cast(tensor.detach())
            if isinstance(tensor, torch.nn.Parameter):
                made = torch.nn.Parameter(made, requires_grad=False)
            memo[id(tensor)] = made
    return copy.deepcopy(model, memo)


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Of states that a forward makes for itself, as by ``torch.zeros``."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _slices_needed(reference: Reference, audit: ProblemRecord, inputs: Inputs, expected: Tensors) -> int:
    """Into how many parts the batch has to be cut for the float64 forward to fit; 1: not at all. Raises NoOracle."""
    device = reference.device
    assert device is not None
    width = 8 / DTYPES[reference.dtype].itemsize
    weights = width * reference.weight_bytes()
    outputs = sum(8 * t.numel() for t in expected)
    between = _activation_bytes(reference, audit, inputs, expected)
    room = 4 * 8 * min(COMPARE_CHUNK_ELEMENTS, max((t.numel() for t in expected), default=0))
    free = ORACLE_MEMORY_SHARE * device.free_bytes()
    if weights + outputs + width * between + room > free:
        device.release_cached()
        free = ORACLE_MEMORY_SHARE * device.free_bytes()
    slices = 1
    while weights + outputs + width * between / slices + room > free:
        slices *= 2
        if slices > min(ORACLE_SLICES_MAX, min((t.shape[0] if t.ndim else 1 for t in expected), default=1)):
            needed = (weights + outputs + width * between + room) / 2**30
            raise NoOracle(f"it needs about {needed:.1f} GiB in float64, {free / 2**30:.1f} GiB may be used")
    return slices


def _activation_bytes(reference: Reference, audit: ProblemRecord, inputs: Inputs, expected: Tensors) -> float:
    """Inputs, outputs and what lies between them, in the reference's dtype."""
    ends = inputs.nbytes + sum(t.numel() * t.element_size() for t in expected)
    if audit.reference_peak_bytes is None:
        return ORACLE_UNCOUNTED_ACTIVATIONS * ends
    return max(ends, audit.reference_peak_bytes - (audit.weight_bytes or 0))


def _sliced(reference: Reference, twin: torch.nn.Module, inputs: Inputs, expected: Tensors, slices: int) -> Tensors:
    """The float64 forward part by part of the first dimension. Raises NoOracle where parts are not the whole's.

    The first input alone is cut, or every one of the batch's size, whichever the reference bears: its own first and
    last part have to be those of its whole output.
    """
    batch = expected[0].shape[0]
    cuts = [(batch * i // slices, batch * (i + 1) // slices) for i in range(slices)]
    if any(t.shape[0] != batch for t in expected):
        raise NoOracle("it does not fit the memory in float64, and its outputs have no common first dimension")
    of_batch = {i for i, t in enumerate(inputs.tensors) if t.ndim and t.shape[0] == batch}
    for chosen in (of_batch, of_batch & {0}):
        if chosen and all(_part_agrees(reference, inputs, expected, chosen, cut) for cut in (cuts[0], cuts[-1])):
            break
    else:
        raise NoOracle("it does not fit the memory in float64, and its batch cannot be cut: parts give other outputs")
    outputs = [torch.empty(t.shape, dtype=torch.float64, device=t.device) for t in expected]
    for low, high in cuts:
        part = [t[low:high] if i in chosen else t for i, t in enumerate(inputs.tensors)]
        found = _run(twin, inputs.encoded, [t.double() if t.is_floating_point() else t for t in part])
        for whole, piece in zip(outputs, found, strict=True):
            if piece.is_floating_point() and piece.dtype != torch.float64:
                raise NoOracle(f"an output is {layout.spec_of(piece).dtype} in float64: the forward fixes a dtype")
            whole[low:high] = piece
    return [o if t.is_floating_point() else o.to(t.dtype) for o, t in zip(outputs, expected, strict=True)]


def _part_agrees(
    reference: Reference, inputs: Inputs, expected: Tensors, chosen: set[int], cut: tuple[int, int]
) -> bool:
    low, high = cut
    part = [t[low:high] if i in chosen else t for i, t in enumerate(inputs.tensors)]
    try:
        with _default_dtype(torch.float32):
            found = _run(reference.model, inputs.encoded, part)
    except (RuntimeError, ValueError, IndexError, TypeError):
        return False  # a shape that the forward relies on
    if [t.shape for t in found] != [t[low:high].shape for t in expected]:
        return False
    for mine, whole in zip(found, expected, strict=True):
        if not whole.is_floating_point():
            if not torch.equal(mine, whole[low:high]):
                return False
            continue
        apart = scaled_error(mine, whole[low:high]).scaled
        if apart is None or apart > ORACLE_SLICE_LIMIT:
            return False
    return True


def _nudged(reference: Reference, inputs: Inputs, expected: Tensors) -> dict[int, ScaledError]:
    """How far the reference moves when its inputs do by a unit in the last place, either way; empty if unknown."""
    if not any(t.is_floating_point() for t in expected):
        return {}
    assert reference.device is not None

    def nudge(tensor: torch.Tensor) -> torch.Tensor:
        generator = torch.Generator(device=tensor.device).manual_seed(FORWARD_SEED)
        signs = torch.empty_like(tensor).bernoulli_(0.5, generator=generator).mul_(2).sub_(1)
        return signs.mul_(torch.finfo(tensor.dtype).eps).add_(1).mul_(tensor)

    try:
        found = forward(reference.model, inputs, nudge)
        if [t.shape for t in found] != [t.shape for t in expected]:
            return {}
        return {i: scaled_error(found[i], t) for i, t in enumerate(expected) if t.is_floating_point()}
    except Exception as error:  # it was well on the inputs themselves; without this figure the floor stands alone
        if reference.device.is_lost(error):
            raise
        if reference.device.is_out_of_memory(error):
            reference.device.release_cached()
        return {}
