"""From a parent's source to its mutants: which pieces of it are kernels, and what each operator does to them.

A candidate is a Python file. Its C++ and CUDA lies in string literals, which are mutated by their value and written
back as literals; its Triton kernels are Python. Torch-free, and the same list on every machine.
"""

from __future__ import annotations

import ast
import hashlib
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from benchmarks.mutation.operators import Operator, Site, all_operators, held_out

SEED = 20261130
"""Of the choice where only some of a parent's mutants are taken."""
_CPP = re.compile(r"torch::|at::|__global__|__device__")


@dataclass(frozen=True)
class Piece:
    """Text of one language in a source. ``start`` and ``end`` are where it, or the literal that holds it, lies."""

    language: str
    text: str
    start: int
    end: int
    literal: bool

    def put_back(self, source: str, text: str) -> str:
        return source[: self.start] + (_literal(text) if self.literal else text) + source[self.end :]


def characters(source: str) -> Callable[[int, int], int]:
    """From a line, counted from 1, and a column in bytes, as ``ast`` gives them, to the character of a source."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def at(line: int, column_bytes: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column_bytes].decode())

    return at


def pieces(source: str) -> list[Piece]:
    """C++ and CUDA literals with a body, in their order; the whole file where it has Triton kernels.

    Raises SyntaxError for a source that is no Python.
    """
    found = []
    at = characters(source)
    tree = ast.parse(source)
    in_f_strings = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in in_f_strings:
            if "{" in node.value and ";" in node.value and _CPP.search(node.value):
                assert node.end_lineno is not None and node.end_col_offset is not None
                start, end = at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)
                found.append(Piece("c++", node.value, start, end, literal=True))
    if re.search(r"^\s*@triton\.(jit|autotune|heuristics)", source, re.MULTILINE):
        found.append(Piece("triton", source, 0, len(source), literal=False))
    return sorted(found, key=lambda piece: (piece.start, piece.end))


def _literal(text: str) -> str:
    if '"""' not in text and not text.endswith(('"', "\\")) and "\r" not in text:
        return f'r"""{text}"""'
    return repr(text)


@dataclass(frozen=True)
class Mutant:
    """One faulty kernel. ``id``: sha256 over the parent's, the operator and the site, as hex."""

    id: str
    parent: str
    parent_sha256: str
    problem: str
    device: str
    language: str
    operator: str
    fault: str
    held_out: bool
    piece: int
    site: Site
    change: str
    """One line: where, what it was, what it is."""

    def source(self, parent_source: str) -> str:
        """Of the mutant. Raises ValueError where the parent is not the one that the site was found in."""
        if sha256(parent_source) != self.parent_sha256:
            raise ValueError(f"mutant {self.id}: {self.parent} is not the source it was made from (sha256 differs)")
        piece = pieces(parent_source)[self.piece]
        return piece.put_back(parent_source, self.site.apply(piece.text))


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def of_parent(name: str, problem: str, device: str, source: str) -> list[Mutant]:
    """Every mutant of a parent, by piece, operator and site; two that come out the same count once."""
    parent_sha, hidden = sha256(source), held_out()
    found: dict[str, Mutant] = {}
    for index, piece in enumerate(pieces(source)):
        for op in all_operators().values():
            for site in op.sites(piece.language, piece.text):
                made = piece.put_back(source, site.apply(piece.text))
                identity = [parent_sha, op.name, index, site.start, site.end, site.new]
                found.setdefault(
                    sha256(made),
                    Mutant(
                        sha256(json.dumps(identity)), name, parent_sha, problem, device, piece.language, op.name,
                        op.fault, op.name in hidden, index, site, _change(piece, op, site),
                    ),
                )  # fmt: skip
    return list(found.values())


def _change(piece: Piece, op: Operator, site: Site) -> str:
    line_start = piece.text.rfind("\n", 0, site.start) + 1
    line_end = piece.text.find("\n", site.end)
    line_end = len(piece.text) if line_end < 0 else line_end
    before = " ".join(piece.text[line_start:line_end].split())
    after = " ".join((piece.text[line_start : site.start] + site.new + piece.text[site.end : line_end]).split())
    line = piece.text.count("\n", 0, site.start) + 1
    return f"line {line}: {before[:160]}  ->  {after[:200] or '(nothing)'}"


def choose(mutants: Iterable[Mutant], count: int, seed: int = SEED) -> list[Mutant]:
    """So many of a parent's mutants, in the order of its source: the first that ``drawn`` gives."""
    return sorted(drawn(mutants, seed)[:count], key=place)


def place(mutant: Mutant) -> tuple[int, int, int, str]:
    """Where in its parent's source it is: what mutants of one parent are sorted by."""
    return mutant.piece, mutant.site.start, mutant.site.end, mutant.operator


def drawn(mutants: Iterable[Mutant], seed: int = SEED) -> list[Mutant]:
    """A parent's mutants: operators take turns in an order drawn from the seed, each with its sites drawn.

    So every operator that has a site is there before one has two.
    """
    by_operator: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        by_operator.setdefault(mutant.operator, []).append(mutant)
    parents = sorted({m.parent_sha256 for ms in by_operator.values() for m in ms})
    chance = random.Random(f"{seed}/{'/'.join(parents)}")
    turns = [by_operator[name] for name in sorted(by_operator)]
    for one in turns:
        chance.shuffle(one)
    chance.shuffle(turns)
    order: list[Mutant] = []
    while any(turns):
        order += [one.pop() for one in turns if one]
    return order


def in_turns(by_parent: Iterable[Sequence[Mutant]], first: int) -> list[list[Mutant]]:
    """The first so many where parents take turns, each in the order given: by parent again.

    Any number of them covers the parents evenly, and says nothing of what a test would make of them.
    """
    left = [list(reversed(mutants)) for mutants in by_parent]
    taken: list[list[Mutant]] = [[] for _ in left]
    count = 0
    while count < first and any(left):
        for mine, waiting in zip(taken, left, strict=True):
            if waiting and count < first:
                mine.append(waiting.pop())
                count += 1
    return taken


# --- as JSON lines ------------------------------------------------------------------------------------------
def write(path: Path, mutants: Iterable[Mutant]) -> None:
    """One line each, as ``read`` reads them. Raises OSError."""
    path.write_text("".join(json.dumps(asdict(m)) + "\n" for m in mutants), encoding="utf-8")


def read(path: Path) -> list[Mutant]:
    """Raises FileNotFoundError, and ValueError naming file, line and field."""
    return [_parse(row, f"{path}:{n}") for n, row in enumerate(_rows(path), 1)]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def _parse(row: dict[str, Any], where: str) -> Mutant:
    missing = [f.name for f in fields(Mutant) if f.name not in row]
    if missing:
        raise ValueError(f"{where}: field {missing[0]} is missing; make the list anew")
    return Mutant(**{**{f.name: row[f.name] for f in fields(Mutant)}, "site": Site(**row["site"])})
