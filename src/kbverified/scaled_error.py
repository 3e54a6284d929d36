"""How far an answer is from the oracle on the oracle's own scale, in chunks, without a second copy of either.

``critical_tolerance`` (correctness.py) measures against 1 + |b|: outputs of size 1e-3 are right whatever they are. Here
the yardstick is scale + |o|, ``scale`` being the oracle's rms. It is taken per row (index of the first dimension)
where rows are long enough, so that a law that scales rows does not hide wrong small rows behind large ones. A row's
scale is at least protocol.SCALED_ROW_FLOOR of the whole output's: a row that is nearly zero throughout is often the
rest of a cancellation or behind a ReLU, and no arithmetic is exact there.

Integer and bool outputs have no scale. An element is right where it equals the reference or the oracle; an index that
torch's argmax and the like returned is also right where the value there ties with theirs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from kbverified.protocol import COMPARE_CHUNK_ELEMENTS, SCALED_ROW_ELEMENTS_MIN, SCALED_ROW_FLOOR

# On a CPU, chunks whose temporaries stay in cache are far faster.
_CACHED_ELEMENTS = 1 << 16

# Oracles whose rms lies between these leave float32 room on both sides for every error that counts.
_NARROW_RMS = (1e-25, 1e25)


@dataclass(frozen=True)
class ScaledError:
    """``scaled``: the smallest m with |a-o| <= m * (scale + |o|) everywhere; None where something is not finite.

    ``rms``: rms(a-o) / rms(o) over the whole output; None there too, and where o is zero throughout.
    """

    scaled: float | None
    rms: float | None
    elements: int


def scaled_error(answer: torch.Tensor, oracle: torch.Tensor, chunk: int = COMPARE_CHUNK_ELEMENTS) -> ScaledError:
    """Error of a floating-point answer against an oracle of the same shape and any floating dtype.

    Squares are summed in float64. Difference, |o|, yardstick and quotient are rounded to float32 where it has room for
    them, that is to five parts in 2^24: half the memory traffic of float64, while a device is held.
    Raises ValueError where the shapes differ.
    """
    if answer.shape != oracle.shape:
        raise ValueError(f"shapes differ: {tuple(answer.shape)} and {tuple(oracle.shape)}")
    count = answer.numel()
    if not count:
        return ScaledError(0.0, None, 0)
    if answer.device.type == "cpu":
        chunk = min(chunk, _CACHED_ELEMENTS)
    rows = _rows(answer)
    a, o = answer.reshape(rows, -1), oracle.reshape(rows, -1)
    norm = torch.linalg.vector_norm
    squares = torch.zeros(rows, dtype=torch.float64, device=o.device)
    for r, c in _blocks(rows, count // rows, chunk):
        squares[r] += norm(o[r, c], dim=1, dtype=torch.float64).square_()
    whole = math.sqrt(squares.sum().item() / count)
    if not math.isfinite(whole):
        return ScaledError(None, None, count)
    narrow = a.element_size() <= 4 and _NARROW_RMS[0] <= whole <= _NARROW_RMS[1]
    kind = torch.float32 if narrow else torch.float64
    scale = squares.div_(count // rows).sqrt_().clamp_(min=SCALED_ROW_FLOOR * whole).to(kind)
    worst = torch.zeros((), dtype=kind, device=o.device)
    error_sq = torch.zeros((), dtype=torch.float64, device=o.device)
    for r, c in _blocks(rows, count // rows, chunk):
        part = o[r, c] if narrow else o[r, c].double()
        error, size = (torch.empty(part.shape, dtype=kind, device=o.device) for _ in range(2))
        torch.sub(a[r, c], part, out=error)
        error_sq += norm(error, dtype=torch.float64).square_()
        ratio = error.div_(size.copy_(part).abs_().add_(scale[r, None]))
        if whole == 0.0:
            ratio.nan_to_num_(nan=0.0)  # 0 / 0 is no error; anything else is beyond all bounds
        worst = torch.maximum(worst, norm(ratio, math.inf))
    if not math.isfinite(error_sq.item()):
        return ScaledError(None, None, count)
    rms = math.sqrt(error_sq.item() / count) / whole if whole > 0.0 else None
    return ScaledError(min(worst.item(), sys.float_info.max), rms, count)


def _rows(tensor: torch.Tensor) -> int:
    """Rows with a scale of their own; 1 where they are too short to have a typical size, or the output is a vector."""
    if tensor.ndim < 2 or tensor.numel() // tensor.shape[0] < SCALED_ROW_ELEMENTS_MIN:
        return 1
    return tensor.shape[0]


def _blocks(rows: int, columns: int, chunk: int) -> Iterator[tuple[slice, slice]]:
    """Blocks of a matrix, each of at most ``chunk`` elements: whole rows, or parts of one that is longer."""
    height, width = max(1, chunk // columns), min(columns, chunk)
    for r in range(0, rows, height):
        for c in range(0, columns, width):
            yield slice(r, r + height), slice(c, c + width)


@dataclass(frozen=True)
class Choice:
    """Where an index in an output came from: ``values`` along ``dim``, reduced to one index."""

    values: torch.Tensor
    dim: int | None
    """None: over the flattened values."""


def wrong_elements(
    answer: torch.Tensor, reference: torch.Tensor, oracle: torch.Tensor | None, choice: Choice | None = None
) -> int:
    """How many elements of an integer or bool answer are wrong; see the module's head for what is right."""
    wrong = answer != reference
    if oracle is not None:
        wrong &= answer != oracle
    if choice is not None and bool(wrong.any()):
        wrong &= ~_ties(answer, reference, choice)
    return int(wrong.sum())


def _ties(answer: torch.Tensor, reference: torch.Tensor, choice: Choice) -> torch.Tensor:
    """Where the value at the answer's index equals that at the reference's; an index out of range ties with none."""
    values, dim = choice.values, choice.dim
    if dim is None:
        values, dim = values.reshape(-1), 0
    keeps = answer.ndim == values.ndim
    mine, theirs = (t if keeps else t.unsqueeze(dim) for t in (answer.long(), reference.long()))
    inside = (mine >= 0) & (mine < values.shape[dim])
    same = values.gather(dim, mine.clamp(0, values.shape[dim] - 1)) == values.gather(dim, theirs)
    found = inside & same
    return found if keeps else found.squeeze(dim)
