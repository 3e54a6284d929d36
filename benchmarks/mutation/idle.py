"""Changes of a GPU kernel that its text shows to change nothing, or next to nothing. No mutants are made of them.

In the first 100 mutants of list 1 (docs/runs/2026-12-01-h200-eighth.md) 16 came out bitwise equal, six
more than may be left out; five were of these kinds, which say nothing of a gate:

- a loop that begins at a number and goes in larger steps, ended one element early or late, or at a multiple of eight:
  it takes as many steps;
- a number of blocks rounded down where kernels stride over their grid: any number of blocks does all elements;
- a factor dropped from such a stride: elements are done more than once.

A loop that begins at a thread's index is none of these: together the threads go in steps of one. Torch-free, and a
pure function of its arguments.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.mutation import mutants
from benchmarks.mutation.cpp_tokens import Cpp
from benchmarks.mutation.mutants import Mutant, Piece

_OF_BOUNDS = ("loop-end-early", "loop-end-late", "loop-rounded-down")
_ENDS = (";", "{", "}")

Range = tuple[int, int]


def without(every: Iterable[Mutant], source: str) -> list[Mutant]:
    """A parent's mutants without those that change nothing, in the order given."""
    idle = [idle_ranges(piece) for piece in mutants.pieces(source)]
    return [m for m in every if not any(a <= m.site.start < b for a, b in idle[m.piece].get(m.operator, []))]


def idle_ranges(piece: Piece) -> dict[str, list[Range]]:
    """By operator the (start, end) in a piece's text, in characters, of what it may leave alone."""
    if piece.language != "c++":
        return {}
    cpp = Cpp(piece.text)
    heads = [(_start(cpp, opened), _start(cpp, close)) for opened, close in _in_larger_steps(cpp)]
    found = {operator: heads for operator in _OF_BOUNDS}
    strides = [k for k, token in enumerate(cpp.tokens) if token.text == "gridDim"]
    if strides:
        found["blocks-rounded-down"] = [(0, len(piece.text))]
        found["factor-dropped"] = [_statement(cpp, k) for k in strides]
    return found


def _in_larger_steps(cpp: Cpp) -> Iterable[tuple[int, int]]:
    """Brackets of every loop's head that begins at a number and has a step other than one."""
    for opened, first, second, close in cpp.loops():
        starts = [k for k in range(opened + 1, first) if cpp[k] == "="]
        begins_at_number = len(starts) == 1 and starts[0] + 2 == first and cpp.tokens[first - 1].kind == "number"
        adds = [k for k in range(second + 1, close) if cpp[k] == "+="]
        if begins_at_number and len(adds) == 1 and cpp.span(adds[0] + 1, close - 1) != "1":
            yield opened, close


def _statement(cpp: Cpp, k: int) -> Range:
    """Around a token, from one ``;``, ``{`` or ``}`` to the next."""
    first = last = k
    while first > 0 and cpp[first - 1] not in _ENDS:
        first -= 1
    while last + 1 < len(cpp) and cpp[last + 1] not in _ENDS:
        last += 1
    return _start(cpp, first), _start(cpp, last) + 1


def _start(cpp: Cpp, k: int) -> int:
    return cpp.tokens[k].start
