"""What a problem cannot do without: bytes of inputs, outputs and weights, and the FLOPs of its reference.

Everything here errs downwards: a floor that is made of it must lie below every honest time. An input counts as far as
it differs between draws and reaches the output; an output as far as it differs between draws and is not one value
repeated along a dimension. What never changes could have been prepared when the model was constructed.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kbverified import layout
from kbverified.devices.base import Device
from kbverified.distributions import Inputs
from kbverified.judge.reference import Reference
from kbverified.protocol import (
    COMPARE_CHUNK_ELEMENTS,
    NEEDS_PROBE_BUDGET_S,
    NEEDS_PROBES,
    NEEDS_SECTOR_BYTES,
    STANDARD_DISTRIBUTION,
)
from kbverified.records.problem import InputNeed

_THIRD_DRAW = "d4_negate"  # what a ReLU leaves at zero under two draws is not zero under their negation


# --- FLOPs and weights, without a device --------------------------------------------------------------------


def count_work(reference: Reference) -> dict[str, int | None]:
    """FLOPs by unit and bytes of weights that one forward reads, as fields of the problem's record.

    ``flops_cudnn`` is what cuDNN's TF32 flag governs (convolutions and recurrent layers), ``flops_matmul`` the rest, as
    torch.utils.flop_counter counts. On fake tensors, which carry shapes and no data, so that no device is held for it.
    Each is None where that forward cannot be run without data, and flops where nothing is counted.
    """
    # Some constructors look at values, which fake tensors do not have: their models are then made in full.
    for fake_model in (True, False):
        try:
            return _count(reference, fake_model)
        except Exception:  # whatever a problem's code or an operator without a fake form raises: no figure
            continue
    return dict.fromkeys(("flops", "flops_matmul", "flops_cudnn", "weight_needed_bytes"))


def _count(reference: Reference, fake_model: bool) -> dict[str, int | None]:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils.flop_counter import FlopCounterMode

    fake = FakeTensorMode(allow_non_fake_inputs=True)
    with torch.no_grad():
        with fake if fake_model else contextlib.nullcontext():
            model = reference.problem.Model(*reference.init_inputs)
        with fake:
            inputs = reference.problem.get_inputs()
            weights = _WeightUse(model)
            with FlopCounterMode(display=False) as counter, weights, _as_products():
                recurrent = _RecurrentFlops(model, counter)
                model(*inputs)
    total = int(counter.get_total_flops())
    counts = counter.get_flop_counts()["Global"]
    cudnn = recurrent.flops + sum(int(n) for operator, n in counts.items() if "convolution" in str(operator))
    return {
        "flops": total or None,
        "flops_matmul": total - cudnn if total else None,
        "flops_cudnn": cudnn if total else None,
        "weight_needed_bytes": weights.needed_bytes(),
    }


@contextlib.contextmanager
def _as_products() -> Iterator[None]:
    """Recurrent layers and attention as the matrix products that they are: a CPU's fused forms are not counted."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    onednn: Any = torch.backends.mkldnn
    before, onednn.enabled = onednn.enabled, False
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        onednn.enabled = before


class _RecurrentFlops:
    """FLOPs inside nn.RNN, nn.LSTM and nn.GRU, which cuDNN computes on a GPU."""

    def __init__(self, model: torch.nn.Module, counter: Any):
        self.flops = 0
        self._counter = counter
        self._before: list[int] = []
        for module in model.modules():
            if isinstance(module, torch.nn.RNNBase):
                module.register_forward_pre_hook(self._enter)
                module.register_forward_hook(self._leave)

    def _enter(self, module: Any, inputs: Any) -> None:
        self._before.append(int(self._counter.get_total_flops()))

    def _leave(self, module: Any, inputs: Any, output: Any) -> None:
        self.flops += int(self._counter.get_total_flops()) - self._before.pop()


class _WeightUse(TorchDispatchMode):
    """Which parameters and buffers any operator of a forward takes, and how many rows of tables are looked up."""

    def __init__(self, model: torch.nn.Module):
        super().__init__()
        tensors = [*model.parameters(), *model.buffers()]
        self._bytes = {_storage(t): t.untyped_storage().nbytes() for t in tensors}
        self._used: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        table = args[0] if func is torch.ops.aten.embedding.default else None
        for value in tree_leaves((args, kwargs or {})):
            key = _storage(value) if isinstance(value, torch.Tensor) else None
            if key in self._bytes:
                read = self._bytes[key]
                if value is table:
                    read = min(read, args[1].numel() * table.shape[1] * table.element_size())
                self._used[key] = min(self._bytes[key], self._used.get(key, 0) + read)
        return func(*args, **(kwargs or {}))

    def needed_bytes(self) -> int:
        return sum(self._used.values())


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


# --- inputs and outputs, on the device ----------------------------------------------------------------------


def input_output_needs(reference: Reference, device: Device) -> dict[str, Any]:
    """``input_needs`` and ``output_needed_bytes``, as fields of the problem's record; both None where they could not be
    found out, with ``needs_why_not``: memory was short, or the device did not survive a probe.

    Runs a few dozen forwards, on two draws of the original law and one of its negation. Nothing may be asked of the
    device afterwards: on a GPU a NaN that becomes an index ends the context of this process.
    """
    try:
        first, second = (reference.draw(STANDARD_DISTRIBUTION, seed) for seed in (0, 1))
        first.tensors = [t.contiguous() for t in first.tensors]
        outputs = _forward(reference, first)
        others = [_forward(reference, second)]
        inputs = _input_needs(reference, first, second, outputs)
        del first, second
        others.append(_negated(reference) or others[0])
        needed = output_needs(outputs, others)
        if not any(needed):  # the output is known before any input is
            inputs = [need and need.model_copy(update={"needed_bytes": 0}) for need in inputs]
        return {"input_needs": inputs, "output_needed_bytes": needed}
    except Exception as error:  # whatever it is, the audit is not to be lost for it
        return {
            "input_needs": None,
            "output_needed_bytes": None,
            "needs_why_not": f"{type(error).__name__}: {error}"[:300],
        }
    finally:
        with contextlib.suppress(RuntimeError):
            device.release_cached()


class DeviceLost(RuntimeError):
    """The device answers nothing any more in this process."""


def _refused(reference: Reference, error: Exception) -> None:
    """A reference that refuses some values is an answer. Raises what was no refusal: no memory, no device."""
    device = reference.device
    if device is None:
        return
    if device.is_out_of_memory(error):
        raise error
    if not device.answers():
        raise DeviceLost(f"the device is lost after the reference had odd inputs: {error}") from error


def _forward(reference: Reference, inputs: Inputs) -> list[torch.Tensor]:
    return [t.detach() for t in layout.leaves(reference.forward(inputs))]


def _completed(reference: Reference, inputs: Inputs) -> list[torch.Tensor]:
    """The same, with what the device has to say about it said here and not at some later call."""
    outputs = _forward(reference, inputs)
    if reference.device is not None:
        reference.device.synchronize()
    return outputs


def _negated(reference: Reference) -> list[torch.Tensor] | None:
    try:
        return _completed(reference, reference.draw(_THIRD_DRAW, 0))
    except (RuntimeError, ValueError, IndexError, ArithmeticError) as error:
        _refused(reference, error)
        return None  # the reference takes no negative inputs


def output_needs(outputs: list[torch.Tensor], others: list[list[torch.Tensor]]) -> list[int]:
    """Bytes of each output that a forward has to write: elements that differ from the same element under another draw.

    One value repeated along a dimension counts once (a view may be returned for it), a tensor returned twice too.
    """
    needed, seen = [], set()
    for index, tensor in enumerate(outputs):
        alike = [other[index] for other in others if other[index].shape == tensor.shape]
        known = (tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()))
        if known in seen or len(alike) < len(others):  # other shapes under other values: nothing is said
            needed.append(0)
            continue
        seen.add(known)
        for dim in range(tensor.dim()):
            if all(_constant_along(t, dim) for t in (tensor, *alike)):
                tensor, *alike = (t.narrow(dim, 0, min(1, t.shape[dim])) for t in (tensor, *alike))
        count = 0
        for chunks in zip(_chunks(tensor), *map(_chunks, alike), strict=True):
            differs = torch.zeros_like(chunks[0], dtype=torch.bool)
            for other in chunks[1:]:
                differs |= chunks[0] != other
            count += int(differs.sum().item())
        needed.append(count * tensor.element_size())
    return needed


def _constant_along(tensor: torch.Tensor, dim: int) -> bool:
    extent = tensor.shape[dim]
    if extent < 2 or not torch.equal(tensor.select(dim, 0), tensor.select(dim, extent - 1)):
        return False
    return torch.equal(tensor.narrow(dim, 0, extent - 1), tensor.narrow(dim, 1, extent - 1))


def _chunks(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    yield from tensor.contiguous().view(-1).split(COMPARE_CHUNK_ELEMENTS)


# --- inputs -------------------------------------------------------------------------------------------------


def _input_needs(
    reference: Reference, inputs: Inputs, other: Inputs, outputs: list[torch.Tensor]
) -> list[InputNeed | None]:
    """One entry per positional argument, None for one that is no tensor."""
    repeats = _same(outputs, _forward(reference, inputs))
    found: list[InputNeed | None] = []
    for item in inputs.encoded:
        if not (isinstance(item, dict) and "tensor" in item):
            found.append(None)
            continue
        index = item["tensor"]
        tensor, drawn_anew = inputs.tensors[index], other.tensors[index]
        if tensor.shape != drawn_anew.shape:
            found.append(InputNeed(varying_bytes=0, probes=0, hits=0, needed_bytes=0))
            continue
        found.append(_one_input(reference, inputs, tensor, drawn_anew.contiguous(), outputs, repeats))
    return found


def _one_input(
    reference: Reference,
    inputs: Inputs,
    tensor: torch.Tensor,
    drawn_anew: torch.Tensor,
    outputs: list[torch.Tensor],
    repeats: bool,
) -> InputNeed:
    """Sectors that differ between two draws, times the share of them that reaches the output.

    A sector, the least that memory hands over, is tried by NaNs (integers: by another draw's values). Where every probe
    reaches the output all of it counts; else the lower end of the share's 95 % interval (Hoeffding, one-sided).
    """
    per_sector = NEEDS_SECTOR_BYTES // tensor.element_size()
    count = tensor.numel() // per_sector
    mine, others = (t.view(-1)[: count * per_sector].view(count, per_sector) for t in (tensor, drawn_anew))
    rows = max(1, COMPARE_CHUNK_ELEMENTS // per_sector)
    varying = sum(int((a != b).any(1).sum().item()) for a, b in zip(mine.split(rows), others.split(rows), strict=True))
    probes = hits = 0
    start = time.monotonic()
    for place in _varying_places(mine, others) if varying else []:
        kept = mine[place].clone()
        mine[place] = float("nan") if tensor.is_floating_point() else others[place]
        hits += _reaches(reference, inputs, outputs, repeats)
        mine[place] = kept
        probes += 1
        if time.monotonic() - start > NEEDS_PROBE_BUDGET_S and probes >= 2:
            break
    share = 1.0 if probes and hits == probes else max(0.0, hits / max(probes, 1) - _hoeffding(max(probes, 1)))
    varying_bytes = varying * NEEDS_SECTOR_BYTES
    return InputNeed(varying_bytes=varying_bytes, probes=probes, hits=hits, needed_bytes=round(share * varying_bytes))


def _hoeffding(probes: int) -> float:
    return math.sqrt(math.log(20.0) / (2.0 * probes))


def _varying_places(mine: torch.Tensor, others: torch.Tensor) -> list[int]:
    """Sectors to probe: drawn evenly, from a fixed seed, among those that differ."""
    generator = torch.Generator().manual_seed(0)
    places = torch.randint(mine.shape[0], (64 * NEEDS_PROBES,), generator=generator).to(mine.device)
    differ = (mine[places] != others[places]).any(1)
    return [int(place) for place in places[differ][:NEEDS_PROBES].tolist()]


def _reaches(reference: Reference, inputs: Inputs, outputs: list[torch.Tensor], repeats: bool) -> bool:
    """NaN in the output or a refusal of NaN, or, where the reference repeats bit by bit, any change."""
    try:
        probed = _completed(reference, inputs)
    except (RuntimeError, ValueError, IndexError, ArithmeticError) as error:
        _refused(reference, error)
        return True
    if any(t.is_floating_point() and bool(torch.isnan(t).any().item()) for t in probed):
        return True
    return repeats and not _same(probed, outputs)


def _same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
