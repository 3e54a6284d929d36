"""Input laws of the hardened test: what a problem drew, changed by parameters that nobody knew before.

The four published distributions scale one law; a kernel that is right for independent numbers of one size passes all
of them. Each law here breaks one thing that such a kernel may rely on. Integers, bools and scalars stay as they are.
Float tensors that stand for labels keep their values, of which a row comes in order under one law; rows that sum to one
do so afterwards.

Sizes are moderate: but for spikes, no value is more than some thirty times what the problem itself draws.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from kbverified.distributions import DTYPES, Inputs, draw
from kbverified.protocol import (
    COMPARE_CHUNK_ELEMENTS,
    HARDENED_LABEL_VALUES,
    HARDENED_NEAR_ONE,
    HARDENED_OFFSET,
    HARDENED_RAMP_STEPS,
    HARDENED_ROW_SCALE,
    HARDENED_SCALE,
    HARDENED_SPIKE_LINES,
    HARDENED_SPIKE_LINES_MAX,
    HARDENED_SPIKE_SIZE,
    HARDENED_SPIKE_SIZE_MAX,
    HARDENED_SPIKE_SPARSE,
    HARDENED_SPIKES,
    HARDENED_WIDE_EXPONENTS,
    HARDENED_ZEROS_SHARE,
    STANDARD_DISTRIBUTION,
)

Parameters = dict[str, Any]


@dataclass(frozen=True)
class Chance:
    """Where a law takes its numbers from: few on the host, which the record tells, and many on the device."""

    host: random.Random
    device: torch.Generator

    def log_uniform(self, ends: tuple[float, float]) -> float:
        """Between two positive ends, their logarithms uniform; to four digits, as the record tells it."""
        return float(f"{ends[0] * (ends[1] / ends[0]) ** self.host.random():.4g}")

    def uniform(self, ends: tuple[float, float]) -> float:
        return float(f"{self.host.uniform(*ends):.4g}")

    def sign(self) -> int:
        return self.host.choice((-1, 1))


Law = Callable[[torch.Tensor, Chance], Parameters]
"""Changes one contiguous float32 tensor in place; returns what was drawn."""


def _scale_and_offset(x: torch.Tensor, chance: Chance) -> Parameters:
    """Every tensor another size and another mean. Zero comes to lie within its range: numbers of one sign would leave
    a ReLU nothing to do, or everything, and an output of zeros tells no answer from another."""
    scale, offset = chance.sign() * chance.log_uniform(HARDENED_SCALE), chance.uniform(HARDENED_OFFSET)
    least, largest = (float(end) for end in x.aminmax()) if x.numel() else (0.0, 0.0)
    if least < largest:
        x.sub_(least + offset * (largest - least))
    x.mul_(scale)
    return {"scale": scale, "offset": offset}


def _row_scales(x: torch.Tensor, chance: Chance) -> Parameters:
    """Rows (the first dimension) of different sizes and signs: no longer one law for all elements."""
    rows = x.shape[0] if x.ndim else 1
    size = torch.rand(rows, generator=chance.device, device=x.device).mul_(2).sub_(1).mul_(HARDENED_ROW_SCALE).exp2_()
    for part in _parts(size):
        part.mul_(torch.rand(part.shape, generator=chance.device, device=x.device).sub_(0.5).sign_())
    x.mul_(size.reshape(x.shape[:1] + (1,) * (x.ndim - 1)))
    return {"log2_at_most": HARDENED_ROW_SCALE}


def _spikes(x: torch.Tensor, chance: Chance) -> Parameters:
    """A few elements far larger than all others, in places that no sample shows: along every dimension where loops and
    tiles begin and end, and the first, the last and some anywhere. An odd number of the latter, and in large tensors so
    large that they weigh in a sum: no half of the elements stands for the other, and none is left out at either end."""
    drawn = chance.uniform(HARDENED_SPIKE_SIZE)
    count = min(HARDENED_SPIKES, max(x.numel(), 1))
    size = float(f"{min(max(drawn, 0.1 * x.numel() / count), HARDENED_SPIKE_SIZE_MAX):.4g}")
    usual = max(abs(float(end)) for end in x.aminmax()) if x.numel() else 0.0
    in_lines = sum(_spikes_in_lines(x, dim, drawn, drawn * usual, chance) for dim in range(x.ndim))
    if x.numel():
        flat = x.view(-1)
        within = range(1, x.numel() - 1)
        at = torch.tensor([0, x.numel() - 1, *chance.host.sample(within, max(count - 2, 0))][:count], device=x.device)
        flat[at] = (flat[at] * size).clamp_(-size * usual, size * usual)
    return {"size": size, "count": count, "in_lines": in_lines, "size_in_lines": drawn}


def _spikes_in_lines(x: torch.Tensor, dim: int, size: float, largest: float, chance: Chance) -> int:
    """Some lines along a dimension get a positive spike: at an end, beside one or at a tile's border, or anywhere.

    A fault in a loop's bounds leaves out elements there, and a maximum or a sum of logarithms misses none that is like
    its neighbours. Returns how many.
    """
    extent = x.shape[dim]
    lines = x.numel() // max(extent, 1)
    if extent < 2 or not lines:
        return 0
    most = min(x.numel() // HARDENED_SPIKE_SPARSE, HARDENED_SPIKE_LINES_MAX)
    count = max(min(int(HARDENED_SPIKE_LINES * lines), most), 1)

    def drawn(below: int) -> torch.Tensor:
        return torch.randint(below, (count,), generator=chance.device, device=x.device)

    ends, near = torch.tensor([0, extent - 1], device=x.device), torch.tensor(_borders(extent), device=x.device)
    kind = drawn(3)
    place = torch.where(kind == 0, ends[drawn(2)], torch.where(kind == 1, near[drawn(len(near))], drawn(extent)))
    line, inner = drawn(lines), x.stride(dim)
    at = (line // inner * extent + place) * inner + line % inner
    flat = x.view(-1)
    flat[at] = (flat[at].abs() * size).clamp_(max=largest)
    return count


def _borders(extent: int) -> list[int]:
    """Indices beside the ends of a line, and on either side of where a tile of 8, 16, 32 and so on ends."""
    tiles = [1 << power for power in range(3, extent.bit_length())]
    near = {1, 2, extent - 2, extent - 3, *tiles, *(tile - 1 for tile in tiles)}
    return sorted(index for index in near if 0 <= index < extent)


def _near_one(x: torch.Tensor, chance: Chance) -> Parameters:
    """Values around one: products neither vanish nor explode, and differences are small beside the mean."""
    spread = chance.log_uniform(HARDENED_NEAR_ONE)
    for part in _parts(x):
        part.normal_(1.0, spread, generator=chance.device)
    return {"spread": spread}


def _sorted_and_repeated(x: torch.Tensor, chance: Chance) -> Parameters:
    """Along the last dimension values ascend or descend in steps, so that most of them occur several times."""
    steps = chance.host.randint(*HARDENED_RAMP_STEPS)
    size, direction = _rms(x), chance.sign()
    if not x.ndim:
        x.fill_(-direction * size * (steps - 1) / steps)
        return {"steps": steps, "direction": direction}
    last = x.shape[-1]
    rows = torch.rand(x.shape[:-1], generator=chance.device, device=x.device).add_(0.5).unsqueeze(-1)
    for start in range(0, last, COMPARE_CHUNK_ELEMENTS):
        end = min(start + COMPARE_CHUNK_ELEMENTS, last)
        ramp = torch.arange(start, end, device=x.device).mul_(steps).div_(last, rounding_mode="floor")
        ramp = ramp.to(x.dtype).sub_((steps - 1) / 2).mul_(direction * 2 * size / steps)
        x[..., start:end].copy_(ramp.expand(*x.shape[:-1], end - start)).mul_(rows)
    return {"steps": steps, "direction": direction}


def _wide_exponents(x: torch.Tensor, chance: Chance) -> Parameters:
    """Magnitudes over many binary orders beside each other."""
    low, high = HARDENED_WIDE_EXPONENTS
    for part in _parts(x):
        power = torch.randint(low, high + 1, part.shape, generator=chance.device, device=x.device, dtype=torch.int32)
        part.copy_(torch.ldexp(part, power))
    return {"log2_from": low, "log2_to": high}


def _in_order(labels: torch.Tensor, chance: Chance) -> Parameters:
    """A row of labels, ascending or descending. Labels in any order are on average the same for every row and column of
    what they are put beside; beside values in order they are not."""
    descending = chance.host.random() < 0.5
    labels.copy_(labels.sort(descending=descending).values)
    return {"descending": descending}


LAWS: dict[str, Law] = {
    "h1_scale_and_offset": _scale_and_offset,
    "h2_row_scales": _row_scales,
    "h3_spikes": _spikes,
    "h4_near_one": _near_one,
    "h5_sorted_and_repeated": _sorted_and_repeated,
    "h6_wide_exponents": _wide_exponents,
}
LABEL_LAWS: dict[str, Law] = {"h5_sorted_and_repeated": _in_order}
"""What a law does to a row of labels; under the others they stay."""


def draw_law(
    get_inputs: Any, law: str, seed: int, device: torch.device, dtype: str = "fp32", positive: bool = False
) -> tuple[Inputs, Parameters]:
    """Inputs under a law: the same seed, device kind and torch give bitwise equal tensors. ``positive``: their
    absolute values, for references that take no other.

    Raises KeyError for an unknown law and what the problem's ``get_inputs`` raises.
    """
    change = LAWS[law]
    inputs = draw(get_inputs, STANDARD_DISTRIBUTION, seed, device, "fp32")
    chance = Chance(random.Random(seed), torch.Generator(device=device).manual_seed(seed ^ 1))
    drawn: Parameters = {}
    for index, tensor in enumerate(inputs.tensors):
        if tensor.dtype != torch.float32:
            continue
        if is_label(tensor):
            if law in LABEL_LAWS and tensor.ndim == 1 and tensor.is_contiguous():
                drawn[str(index)] = LABEL_LAWS[law](tensor, chance)
            inputs.tensors[index] = tensor.to(DTYPES[dtype])
            continue
        sums_to_one = _sums_to_one(tensor)
        x = tensor if tensor.is_contiguous() else tensor.contiguous()
        zeros, symmetric = _structural_zeros(x), _is_symmetric(x)
        drawn[str(index)] = change(x, chance)
        if symmetric:
            x.copy_(x.triu() + x.triu(1).t())
        if zeros is not None:
            x.masked_fill_(zeros, 0.0)
        if positive or sums_to_one:
            x.abs_()
        if sums_to_one:
            x.div_(x.sum(-1, keepdim=True).clamp_(min=torch.finfo(x.dtype).tiny))
        if x is not tensor and not _overlaps_itself(tensor):
            x = tensor.copy_(x)  # the strides that the problem gives
        inputs.tensors[index] = x.to(DTYPES[dtype])
    if positive:
        drawn["positive"] = True
    return inputs, drawn


def is_label(tensor: torch.Tensor) -> bool:
    """Whether a float tensor stands for classes, such as targets of 1 and -1: few whole numbers."""
    head = tensor.reshape(-1)[: 1 << 16]
    if not head.numel() or not bool((head == head.round()).all()) or not bool((tensor == tensor.round()).all()):
        return False
    return head.unique().numel() <= HARDENED_LABEL_VALUES


def _structural_zeros(x: torch.Tensor) -> torch.Tensor | None:
    """Where a problem draws zeros on purpose, as in a triangular matrix: a kernel may leave them out. None: nowhere."""
    zeros = x == 0
    # In parts: a GPU sums truth values as 64-bit integers, eight bytes for each of them.
    count = sum(int(part.count_nonzero()) for part in _parts(zeros))
    return zeros if x.numel() and count > HARDENED_ZEROS_SHARE * x.numel() else None


def _is_symmetric(x: torch.Tensor) -> bool:
    return x.ndim == 2 and x.shape[0] == x.shape[1] > 1 and torch.equal(x, x.t())


def _sums_to_one(tensor: torch.Tensor) -> bool:
    if tensor.ndim < 2 or tensor.shape[-1] < 2:
        return False
    sums = tensor.reshape(-1, tensor.shape[-1])[:64].double()
    return bool((sums >= 0).all()) and bool((sums.sum(-1) - 1).abs().amax() < 1e-4)


def _overlaps_itself(tensor: torch.Tensor) -> bool:
    return any(stride == 0 and extent > 1 for stride, extent in zip(tensor.stride(), tensor.shape, strict=True))


def _rms(x: torch.Tensor) -> float:
    total = sum(float(part.double().square().sum()) for part in _parts(x))
    return (total / max(x.numel(), 1)) ** 0.5


def _parts(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Flat views, few enough elements each that a second copy is small."""
    return x.view(-1).split(COMPARE_CHUNK_ELEMENTS)
