"""What ``check`` is asked: which file, which problem, on what and by which test. All is looked up before it runs.

A problem is named by its key in a suite of a checkout (``level1_19``, ``kernelbench/level1_19``), or is a file.
"""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from kbverified import problems, protocol
from kbverified.config import Timeouts
from kbverified.device_choice import resolve_device, why_no_gpu
from kbverified.keys import (
    BASELINE_STAGES,
    EVERY_STAGE,
    NAME_PATTERN,
    PROBLEM_PATTERN,
    STAGES,
    TIME_STAGES,
    Baseline,
    CandidateKey,
    ProblemKey,
)
from kbverified.verdicts import Test

GENERATOR = "check"
"""Takes the generator's place in the records of a checked file."""
OWN_SUITE = "file"
"""Takes the suite's place for a problem file that lies in none."""


class MachineFault(RuntimeError):
    """Something other than candidate and problem is broken: there is no verdict."""


@dataclass(frozen=True)
class Problem:
    """A trusted reference module, and the name that it has in records."""

    key: ProblemKey
    path: Path
    name: str


@dataclass(frozen=True)
class Question:
    """One call of ``check``, with every default filled in. Paths are absolute."""

    candidate: Path
    problem: Problem
    device: Literal["cuda", "cpu"]
    dtype: Literal["fp32", "bf16"]
    test: Test
    stages: tuple[str, ...]
    """In their order, with those that they need."""
    tau: float
    sandbox: str
    gate_mode: str
    timing_budget_s: float
    timeout_s: float | None
    """One answer of a worker; None: what the workflow's configuration has for each stage."""
    arch: str | None
    root: Path | None
    """The checkout that the problem was found in; None for a problem file."""

    @property
    def key(self) -> CandidateKey:
        return CandidateKey(GENERATOR, self.problem.key.suite, self.problem.key.problem, 0)

    @property
    def baselines(self) -> tuple[Baseline, ...]:
        """The optional baselines whose stages are asked for."""
        return tuple(name for name in get_args(Baseline) if BASELINE_STAGES[name] in self.stages)

    def timeout_of(self, stage: str) -> float:
        """Seconds for a stage, or ``audit-problem``, which keeps its own: its limit is for all of it."""
        if self.timeout_s is None or stage == "audit-problem":
            return Timeouts().of(stage)
        return self.timeout_s


def of(arguments: argparse.Namespace) -> Question:
    """The question that a command line asks. Raises ValueError for what cannot be asked, naming what to mend;
    MachineFault where this machine has no such device."""
    candidate = readable(arguments.candidate, "candidate")
    problem, root = find_problem(arguments.problem, arguments.suite, arguments.root)
    return Question(
        candidate=candidate,
        problem=problem,
        device=_device(arguments.device),
        dtype=arguments.dtype,
        test=arguments.test,
        stages=parse_stages(arguments.stages),
        tau=arguments.tau if arguments.tau is not None else protocol.TAU[arguments.dtype],
        sandbox=arguments.sandbox,
        gate_mode=arguments.gate_mode,
        timing_budget_s=arguments.timing_budget_s,
        timeout_s=arguments.timeout_s,
        arch=arguments.arch,
        root=root,
    )


def _device(wanted: Literal["auto", "cuda", "cpu"]) -> Literal["cuda", "cpu"]:
    if wanted == "cuda" and (why := why_no_gpu()) is not None:
        raise MachineFault(f"--device cuda: {why}. Use --device cpu, or see what kbverified doctor says.")
    return resolve_device(wanted)


def readable(path: Path, what: str) -> Path:
    """The absolute path of a regular file that can be read. Raises ValueError."""
    try:
        if not path.is_file():
            raise ValueError(f"{what} {path}: {'no regular file' if path.exists() else 'there is no such file'}")
        with path.open("rb"):
            return path.absolute()
    except OSError as error:
        raise ValueError(f"{what} {path}: cannot be read: {error.strerror}") from None


def parse_stages(text: str | None) -> tuple[str, ...]:
    """The stages of a comma-separated list, with those that they need, in their order; without a list, the usual ones.

    Raises ValueError for a name that is no stage.
    """
    if text is None:
        return STAGES
    asked = [word.strip() for word in text.split(",") if word.strip()]
    for word in asked:
        if word not in EVERY_STAGE:
            near = difflib.get_close_matches(word, EVERY_STAGE, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ValueError(f"--stages: {word!r} is no stage; {hint}stages: {', '.join(EVERY_STAGE)}")
    if not asked:
        raise ValueError(f"--stages: names none of {', '.join(EVERY_STAGE)}")
    needed = {"compile", *asked}
    if needed & {*TIME_STAGES, "memory"}:
        needed.add("hidden-gate")
    return tuple(stage for stage in EVERY_STAGE if stage in needed)


# --- the problem --------------------------------------------------------------------------------------------


def find_problem(text: str, suite: str | None, root: Path | None) -> tuple[Problem, Path | None]:
    """The problem of a name or a path, and the checkout that it is from. Raises ValueError, naming what there is."""
    if text.endswith(".py"):
        if suite is not None:
            raise ValueError(f"--suite {suite}: --problem {text} is a file, and in no suite")
        path = readable(Path(text), "problem")
        problems.static_check(path)
        return Problem(key_of_file(path), path, _name(path.with_suffix(""))), None
    if "/" in text:
        named, _, text = text.partition("/")
        if suite not in (None, named):
            raise ValueError(f"--suite {suite}: --problem {named}/{text} names another suite")
        suite = named
    if not re.fullmatch(PROBLEM_PATTERN, text):
        raise ValueError(
            f"--problem {text!r} is no problem: write level1_19, suite/level1_19, or the path of a .py file"
        )
    place = _root(root)
    suites = [suite] if suite is not None else _suites(place)
    found = [key for key in (ProblemKey(name, text) for name in suites) if key.source_path(place).is_file()]
    if len(found) != 1:
        raise ValueError(_not_one(text, suites, found, place))
    path = readable(found[0].source_path(place), "problem")
    problems.static_check(path)
    return Problem(found[0], path, _name(path.with_suffix(""))), place


def key_of_file(path: Path) -> ProblemKey:
    """The key of a problem file by where it lies, as far as that says: ``SUITE/level1_19.py`` of a suite,
    ``level1/19_ReLU.py`` of KernelBench; ``file/level0_0`` for any other."""
    folder = path.parent.name
    if re.fullmatch(PROBLEM_PATTERN, path.stem):
        return ProblemKey(folder if re.fullmatch(NAME_PATTERN, folder) else OWN_SUITE, path.stem)
    number = re.match(r"([0-9]+)_", path.stem)
    if number and re.fullmatch(r"level[0-9]+", folder):
        return ProblemKey(OWN_SUITE, f"{folder}_{int(number[1])}")
    return ProblemKey(OWN_SUITE, "level0_0")


def _name(path: Path) -> str:
    """From the manifest beside a problem where that lists it; else its file name."""
    manifest = path.parent / "manifest.csv"
    rows = problems.read_manifest(manifest) if manifest.is_file() else {}
    plain = "".join(c if c.isprintable() else "?" for c in path.name)
    return rows[path.name].name if path.name in rows else plain


def checkout() -> Path | None:
    """The folder that has problems/: this one, one above it, or the one that this package lies in; None without."""
    folders = (Path.cwd(), *Path.cwd().parents, Path(__file__).resolve().parents[3])
    return next((folder for folder in folders if _suites(folder)), None)


def _root(named: Path | None) -> Path:
    """Where to look for suites. Raises ValueError where there are none."""
    if named is not None and not (named / "problems").is_dir():
        raise ValueError(f"--root {named}: no folder problems/ in it")
    found = named.absolute() if named is not None else checkout()
    if found is None:
        raise ValueError("no problems/ here: go into a checkout, name one with --root, or give a problem's .py file")
    return found


def _suites(root: Path) -> list[str]:
    """Names of the suites of a checkout: the folders of problems/ that hold a problem."""
    folders = sorted((root / "problems").iterdir()) if (root / "problems").is_dir() else []
    return [f.name for f in folders if re.fullmatch(NAME_PATTERN, f.name) and any(f.glob("level*_*.py"))]


def _not_one(text: str, suites: Iterable[str], found: list[ProblemKey], root: Path) -> str:
    """What to say where a name fits no problem, or several."""
    if found:
        names = ", ".join(key.suite for key in found)
        return f"--problem {text} is in several suites ({names}): say which with --suite, as --suite {found[0].suite}"
    there = [path.stem for name in suites for path in (root / "problems" / name).glob("level*_*.py")]
    near = difflib.get_close_matches(text, there, n=3)
    hint = f"near: {', '.join(near)}" if near else "import a suite with kbverified import-problems"
    known = ", ".join(_suites(root)) or "none"
    where = f"{', '.join(suites) or 'any suite'} under {root / 'problems'} (suites: {known})"
    return f"--problem {text}: not in {where}; {hint}"
