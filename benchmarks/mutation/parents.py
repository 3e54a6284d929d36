"""The honest kernels that mutants are made from.

On the CPU: the bundled C++ candidates and those in ``parents/``, written for this. On a GPU: the bundled CUDA and
Triton candidates, and the public ones that ``public_parents.jsonl`` lists by sha256, which the user fetches
(``python -m benchmarks.candidates --list benchmarks/mutation/public_parents.jsonl --from FOLDERS --into FOLDER``).

The public list's rule. Out of the 146 candidates of docs/runs/candidates.jsonl those are eligible that

- every archive of docs/runs that holds a gate record of theirs calls right under all four distributions (tau 1e-3), on
  an H200, and right by the hardened test, wherever it was run on them: a parent has to be honest;
- answer a problem that tells answers apart (not one of the 18 on which another input's output passes);
- have at least PUBLIC_MUTANTS_MIN places for the operators, so that a parent is worth its build.

Generators are taken in turn, in the order of their names; each gives its eligible candidate with the smallest sha256
whose problem nobody has given yet, or sits out. The rule was not written down when the list was made (2026-11-30); it
was reconstructed afterwards and gives exactly that list, in its order. Why it ended at 19 is not known.

**Right in the arithmetic that was asked for.** The first GPU run showed that hidden is not enough of a test of honesty:
three of the 19 answer in another arithmetic than fp32's, in every archived record with hardened trials. They are named
in PASSED_OVER, and what they miss is no fault of a mutant. So eligible means now that hidden *and* hardened pass in
every archive that holds such trials of the candidate (``kbverified.hardened.verdict.judge`` on gate record and audit,
with today's limits). Those who fail keep their turn and are passed over, and the turns go on until there are
PUBLIC_PARENTS again: nobody who was on the list for good reason leaves it because another does. 19 stay, so that half
of all parents (12 on the CPU, 7 bundled ones and these) are real. What a gate says of a *mutant* plays no part.

The next list goes on from there: the same rule, over candidates that a later docs/runs lists as well, beginning with
the first that this one leaves out, and its length is fixed, with its reason, before any of its mutants is built.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from benchmarks import candidates as listing

PROJECT = Path(__file__).resolve().parents[2]
PUBLIC = Path(__file__).with_name("public_parents.jsonl")
PUBLIC_PARENTS = 19
PASSED_OVER = {
    "2542a61ce3a817515ab46b832928015d7864024742c9cd0677a9864ad534436a": "claude-opus-4.1, level2_53: GELU by tanh, "
    "where erf is asked for",
    "00de79bdc99e2ffa92b713963165b3665210674e61cf4b7880db2d4e658b7bcc": "deepseek-v4-pro, level2_86: GELU by tanh, "
    "where erf is asked for",
    "708d6f38356e7b47f9d1fa4ed25ca0f58c0d6dfbf1b86bf64ef1321922ed0127": "grok-code-fast-1-triton, level2_63: a product "
    "in TF32",
}
"""Candidates of the first PUBLIC_PARENTS + 3 turns that pass hidden and fail hardened, by sha256."""
PUBLIC_MUTANTS_MIN = 40
"""Of those that ``mutants.of_parent`` finds, before any choice among them."""


@dataclass(frozen=True)
class Parent:
    """``name`` says where it comes from; ``problem`` is the file that it answers, in its own sizes or a variant's."""

    name: str
    path: Path
    problem: Path
    device: str
    variant: str = ""
    """Of the problem (``odd_sizes.py``); empty where none was chosen, as on the CPU."""

    @property
    def kernel(self) -> str:
        """Its name among the kernels of a run: records of one variant are not those of another."""
        return self.name.replace("/", "-") + (f"--{self.variant}" if self.variant else "")


def on_cpu() -> list[Parent]:
    """C++ kernels, in the order of their problems."""
    bundled = PROJECT / "problems/bundled"
    found = [
        Parent(f"bundled-honest/{path.parent.name}", path, bundled / f"{path.parent.name}.py", "cpu")
        for path in (PROJECT / "generations/bundled-honest/bundled").glob("*/*.py")
        if b"load_inline" in path.read_bytes()
    ]
    ours = Path(__file__).with_name("parents")
    found += [Parent(f"ours/{p.stem}", p, bundled / f"{p.stem}.py", "cpu") for p in ours.glob("*.py")]
    return sorted(found, key=lambda parent: (parent.problem.stem, parent.name))


def on_gpu() -> list[Parent]:
    """The bundled CUDA and Triton kernels."""
    folder = PROJECT / "generations/bundled-gpu/bundled"
    return [
        Parent(f"bundled-gpu/{path.parent.name}", path, PROJECT / "problems/bundled" / f"{path.parent.name}.py", "cuda")
        for path in sorted(folder.glob("*/*.py"))
        if b"__global__" in path.read_bytes() or b"@triton.jit" in path.read_bytes()
    ]


def public(folder: Path, problems: Path) -> tuple[list[Parent], list[str]]:
    """The listed public kernels as far as they are in the folder with the listed content; what is missing.

    ``problems``: a folder with level1_19.py and so on, as ``import-problems`` makes it.
    """
    listed = listing.read_list(PUBLIC)
    there = listing.in_folder(listed, folder)
    found, missing = [], []
    for one in listed:
        problem = problems / f"{one.problem}.py"
        if one.tail in there and problem.is_file():
            found.append(Parent(one.tail, there[one.tail], problem, "cuda"))
        else:
            missing.append(
                f"{one.tail}: {problem if one.tail in there else folder / one.file} is not there, or differs"
            )
    return found, missing


def file_sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
