"""Bring the bundled suite's manifest and the bundled candidates' metadata in line with the files after an edit.

Usage, from the repository's root:

    python workflow/scripts/refresh_bundled.py [--check]

Writes ``problems/bundled/manifest.csv`` and the ``candidate_sha256`` of every ``generations/bundled-*/.../*.json``.
``--check`` writes nothing and exits 1 where something is out of date. A candidate without metadata is an error: its
origin and expected verdict are for its author to write.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import sys
from pathlib import Path

from kbverified import problems
from kbverified.keys import CandidateKey, ProblemKey
from kbverified.records.files import read, write, write_text
from kbverified.records.generation import Generation

SUITE = "bundled"
ROOT = Path(__file__).resolve().parents[2]


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def problem_keys(root: Path) -> list[ProblemKey]:
    """Keys of the bundled problems by level and number. Raises ValueError for a file with another kind of name."""
    keys = [ProblemKey(SUITE, path.stem) for path in (root / "problems" / SUITE).glob("*.py")]
    return sorted(keys, key=lambda key: (key.level, key.number))


def candidate_keys(root: Path) -> list[CandidateKey]:
    """Keys of all candidates of the bundled generators, in order. Raises ValueError for a file with another name."""
    generations = root / "generations"
    paths = generations.glob(f"bundled-*/{SUITE}/*/*.py")
    return sorted(CandidateKey.from_tail(path.relative_to(generations).as_posix()) for path in paths)


def problem_name(path: Path) -> str:
    """The name a problem's docstring opens with, up to the colon. Raises ValueError where there is none."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    name, colon, _ = docstring.partition(":")
    if not colon or not name.isidentifier():
        raise ValueError(
            f"{path}: docstring opens with {docstring[:40]!r}; begin it with the problem's name and a colon"
        )
    return name


def manifest_text(root: Path) -> str:
    """manifest.csv as it should be."""
    return problems.manifest_text(
        problems.ManifestRow(
            problem=key.problem,
            name=problem_name(key.source_path(root)),
            level=key.level,
            sha256=sha256(key.source_path(root)),
            source=SUITE,
        )
        for key in problem_keys(root)
    )


def stale_metadata(root: Path) -> list[CandidateKey]:
    """Candidates whose metadata names another sha256 than their file has.

    Raises ValueError for a candidate without metadata, RecordError for metadata that is not a Generation.
    """
    stale = []
    for key in candidate_keys(root):
        metadata = key.metadata_path(root)
        if not metadata.exists():
            raise ValueError(
                f"{metadata}: missing; write it as a records.generation.Generation (origin, source, expected_verdict)"
            )
        if read(metadata, Generation).candidate_sha256 != sha256(key.source_path(root)):
            stale.append(key)
    return stale


def refresh(root: Path, check: bool) -> list[Path]:
    """Rewrite what is out of date (only list it under check) and return its paths."""
    changed = []
    manifest, text = root / "problems" / SUITE / "manifest.csv", manifest_text(root)
    if not manifest.exists() or manifest.read_text(encoding="utf-8") != text:
        changed.append(manifest)
        if not check:
            write_text(manifest, text)
    for key in stale_metadata(root):
        metadata = key.metadata_path(root)
        changed.append(metadata)
        if not check:
            generation = read(metadata, Generation)
            digest = sha256(key.source_path(root))
            write(metadata, generation.model_copy(update={"candidate_sha256": digest}))
    return changed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 where something is out of date")
    parser.add_argument("--root", type=Path, default=ROOT, help="repository root")
    arguments = parser.parse_args()
    try:
        changed = refresh(arguments.root, arguments.check)
    except ValueError as error:  # RecordError is one
        print(error, file=sys.stderr)
        return 2
    for path in changed:
        print(f"{'out of date' if arguments.check else 'rewritten'}: {path}")
    return 1 if arguments.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
