"""The fixed list of real candidates that the benchmarks run on, and the command that puts a folder of them together.

    python -m benchmarks.candidates --from FOLDER... --into benchmarks/out/candidates

``benchmarks/candidates.jsonl`` names each by repository, commit, path and sha256. The files are public work of others
and never in this repository: bring them, for instance as git clones (no checkout is needed, the commit only has to be
in the clone), or as any folder that holds them under any name. What is missing is said, with where to get it.

The list is made by rule from a longer one, with ``--pick docs/runs/candidates.jsonl --from FOLDER``: those that ask
torch for an extension and hold a CUDA kernel; from each level 16, taken from its generators in turn, in the order of
their names, and within a generator in the order of their sha256.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kbverified.protocol import CANDIDATE_SIZE_LIMIT_BYTES
from kbverified.run_import import RUN_FILE

LIST = Path(__file__).with_name("candidates.jsonl")
PER_LEVEL = 16
LEVELS = (1, 2, 3)
_FIELDS = ("generator", "file", "repo", "commit", "path", "sha256")


@dataclass(frozen=True)
class Listed:
    """One line of the list."""

    generator: str
    file: str
    """``generator/level_1_problem_19_sample_0_kernel.py``: its name in a folder of candidates."""
    repo: str
    """``owner/name`` on GitHub."""
    commit: str
    path: str
    sha256: str

    @property
    def level(self) -> int:
        return int(self._numbers()[0])

    @property
    def problem(self) -> str:
        level, number, _ = self._numbers()
        return f"level{level}_{number}"

    @property
    def tail(self) -> str:
        """``generator/kernelbench/level1_19/0``."""
        return f"{self.generator}/kernelbench/{self.problem}/{self._numbers()[2]}"

    def _numbers(self) -> tuple[str, ...]:
        match = RUN_FILE.fullmatch(Path(self.file).name)
        if match is None:
            raise ValueError(f"{self.file}: no level_<L>_problem_<P>_sample_<S>_kernel.py")
        return match.groups()


def read_list(path: Path = LIST) -> list[Listed]:
    """The list. Raises ValueError with file, line and field, OSError."""
    listed = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        row = json.loads(line)
        missing = [field for field in _FIELDS if not isinstance(row.get(field), str)]
        if missing:
            raise ValueError(f"{path}:{number}: field {missing[0]} is no text (value {row.get(missing[0])!r})")
        listed.append(Listed(**{field: row[field] for field in _FIELDS}))
    return listed


def write_list(path: Path, listed: Iterable[Listed]) -> None:
    """One line each, as ``read_list`` reads them. Raises OSError."""
    path.write_text("".join(f"{json.dumps(asdict(one))}\n" for one in listed), encoding="utf-8")


def pick(listed: Iterable[Listed], sources: Mapping[str, bytes], per_level: int = PER_LEVEL) -> list[Listed]:
    """Those that ask for an extension and hold a CUDA kernel, by the rule above. ``sources``: sha256 to source.

    Candidates without a source are left out: what is in them decides.
    """
    picked: list[Listed] = []
    order = sorted(listed, key=lambda one: (one.generator, one.sha256))
    for level in LEVELS:
        waiting: dict[str, list[Listed]] = {}
        for one in order:
            if one.level == level and _asks_for_cuda(sources.get(one.sha256, b"")):
                waiting.setdefault(one.generator, []).append(one)
        turn: list[Listed] = []
        while any(waiting.values()):
            turn += [queue.pop(0) for queue in waiting.values() if queue]
        picked += turn[:per_level]
    return picked


def _asks_for_cuda(source: bytes) -> bool:
    return (b"load_inline" in source or b"cpp_extension" in source) and b"__global__" in source


# --- bringing the files together ----------------------------------------------------------------------------
def find(listed: Sequence[Listed], folders: Iterable[Path]) -> dict[str, bytes]:
    """Sources by sha256, from files with these contents and from git clones that hold the commits.

    Raises FileNotFoundError for a folder that is not there.
    """
    wanted = {one.sha256 for one in listed}
    found: dict[str, bytes] = {}
    for folder in folders:
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder} is no folder; name one that holds candidates or git clones")
        for path in sorted(folder.rglob("*.py")):
            if path.is_file() and path.stat().st_size <= CANDIDATE_SIZE_LIMIT_BYTES:
                _keep_if_wanted(path.read_bytes(), wanted, found)
        for clone in filter(_is_git, (folder, *sorted(p for p in folder.iterdir() if p.is_dir()))):
            for one in listed:
                if one.sha256 not in found:
                    _keep_if_wanted(_blob(clone, one), wanted, found)
    return found


def _keep_if_wanted(data: bytes, wanted: set[str], found: dict[str, bytes]) -> None:
    sha256 = hashlib.sha256(data).hexdigest()
    if sha256 in wanted:
        found[sha256] = data


def _is_git(folder: Path) -> bool:
    return (folder / ".git").exists() or ((folder / "objects").is_dir() and (folder / "HEAD").is_file())


def _blob(clone: Path, one: Listed) -> bytes:
    command = ["git", "-C", str(clone), "cat-file", "blob", f"{one.commit}:{one.path}"]
    return subprocess.run(command, capture_output=True, check=False).stdout


def write_folder(listed: Sequence[Listed], found: Mapping[str, bytes], into: Path) -> None:
    """Each candidate under its own name in a folder of its generator, as ``import-runs`` takes them. Raises OSError."""
    for one in listed:
        if one.sha256 in found:
            path = into / one.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(found[one.sha256])


def in_folder(listed: Iterable[Listed], folder: Path) -> dict[str, Path]:
    """Paths in a folder made by ``write_folder``, by tail: those whose content has the listed sha256."""
    paths = {one.tail: folder / one.file for one in listed}
    hashes = {one.tail: one.sha256 for one in listed}
    return {
        tail: path
        for tail, path in paths.items()
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == hashes[tail]
    }


def missing_text(listed: Iterable[Listed], found: Mapping[str, bytes]) -> str:
    """What is missing and how to get it; empty where nothing is."""
    by_place: dict[tuple[str, str], list[Listed]] = {}
    for one in listed:
        if one.sha256 not in found:
            by_place.setdefault((one.repo, one.commit), []).append(one)
    lines = []
    for (repo, commit), ones in by_place.items():
        folder = repo.replace("/", "-")
        lines.append(
            f"{len(ones)} missing of {repo} at {commit}:\n"
            f"  git clone https://github.com/{repo} {folder}   and add --from {folder}"
        )
        lines += [f"  {one.path}  sha256 {one.sha256}" for one in ones]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Exit code 0: all are there; 1: some are missing, and said; 2: bad input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="folders", type=Path, nargs="+", required=True, metavar="FOLDER")
    parser.add_argument(
        "--into", type=Path, metavar="FOLDER", help="write them here; without it they are only looked for"
    )
    parser.add_argument("--list", type=Path, default=LIST)
    parser.add_argument("--pick", type=Path, metavar="LIST", help="make --list anew from this longer list")
    arguments = parser.parse_args(argv)
    try:
        listed = read_list(arguments.pick or arguments.list)
        found = find(listed, arguments.folders)
        if arguments.pick:
            listed = pick(listed, found)
            write_list(arguments.list, listed)
        if arguments.into:
            write_folder(listed, found, arguments.into)
    except (OSError, ValueError) as error:
        print(f"candidates: {error}", file=sys.stderr)
        return 2
    there = sum(one.sha256 in found for one in listed)
    print(
        f"{there} of {len(listed)} candidates are there" + (f", written to {arguments.into}" if arguments.into else "")
    )
    missing = missing_text(listed, found)
    if missing:
        print(missing)
    return 1 if missing else 0


if __name__ == "__main__":
    raise SystemExit(main())
