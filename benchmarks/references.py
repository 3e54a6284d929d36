"""References as candidates: the class renamed and nothing else, so that the stages' own cost is what is measured.

    python -m benchmarks.references level1_19 level2_12 [--suite kernelbench] [--samples 3] [--root .]

Writes ``generations/renamed-reference/{suite}/{problem}/{sample}.py`` with its metadata, from ``problems/{suite}``,
which ``import-problems`` has put there. Such a candidate is right on every distribution and takes as long as its
baseline.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import itertools
import sys
import tokenize
from collections.abc import Iterable
from pathlib import Path

from kbverified.file_plan import commit
from kbverified.keys import CandidateKey, ProblemKey
from kbverified.records.generation import Generation
from kbverified.run_import import candidate_files

GENERATOR = "renamed-reference"


def renamed(source: str) -> str:
    """The source with the name ``Model`` as ``ModelNew`` wherever it is a name of its own; text and comments stay.

    Raises ValueError where no class Model is defined, or ModelNew already is a name in it.
    """
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    names = [token.string for token in tokens if token.type == tokenize.NAME]
    if "ModelNew" in names or not any(a == "class" and b == "Model" for a, b in itertools.pairwise(names)):
        raise ValueError("it defines no class Model, or has a ModelNew already")
    lines = source.splitlines(keepends=True)
    for token in reversed(tokens):
        if token.type == tokenize.NAME and token.string == "Model":
            row, column = token.start
            line = lines[row - 1]
            lines[row - 1] = f"{line[:column]}ModelNew{line[column + len('Model') :]}"
    return "".join(lines)


def reference_files(problem: ProblemKey, root: Path, samples: Iterable[int]) -> dict[Path, bytes]:
    """One problem's reference as samples of the generator, all alike: what is to be written below root.

    Raises ValueError, OSError with the problem's path.
    """
    path = problem.source_path(root)
    try:
        data = renamed(path.read_text(encoding="utf-8")).encode()
    except (ValueError, SyntaxError, tokenize.TokenError) as error:
        raise ValueError(f"{path}: {error}") from None
    generation = Generation(
        origin="import",
        source=f"the reference of {problem}, its class renamed",
        candidate_sha256=hashlib.sha256(data).hexdigest(),
        extraction="verbatim",
    )
    files: dict[Path, bytes] = {}
    for sample in samples:
        files.update(candidate_files(_key(problem, sample), root, data, generation))
    return files


def write_reference(problem: ProblemKey, root: Path, sample: int = 0) -> CandidateKey:
    """One problem's reference as a sample of the generator. Raises as ``reference_files``."""
    commit(reference_files(problem, root, [sample]), root / "generations")
    return _key(problem, sample)


def _key(problem: ProblemKey, sample: int) -> CandidateKey:
    return CandidateKey(GENERATOR, problem.suite, problem.problem, sample)


def main(argv: list[str] | None = None) -> int:
    """Exit code 0, or 2 where a problem is not there or cannot be renamed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="+", metavar="PROBLEM")
    parser.add_argument("--suite", default="kernelbench")
    parser.add_argument("--samples", type=int, default=1, help="how many of each: all alike, to repeat a measurement")
    parser.add_argument("--root", type=Path, default=Path("."))
    arguments = parser.parse_args(argv)
    try:
        for name in arguments.problems:
            for sample in range(arguments.samples):
                print(write_reference(ProblemKey(arguments.suite, name), arguments.root, sample))
    except FileNotFoundError as error:
        print(f"references: {error.filename} is not there: kbverified import-problems brings a suite", file=sys.stderr)
        return 2
    except ValueError as error:
        print(f"references: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
