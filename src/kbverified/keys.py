"""Names and places: the keys of problems and candidates, and the path of every file that belongs to one.

Everything the workflow writes for one candidate repeats the same tail ``{generator}/{suite}/{problem}/{sample}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kbverified.protocol import COMPILED_BASELINE_MODE

# One wildcard, one law. The Snakefile constrains its wildcards with these very patterns.
NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]*"
PROBLEM_PATTERN = r"level[0-9]+_[0-9]+"
SAMPLE_PATTERN = r"[0-9]+"

STAGES = ("compile", "hidden-gate", "time-fp32", "time-tf32", "memory")
"""The stages that every candidate has, in their order; also the names of their folders under ``results/``."""

BASELINE_STAGES = {"ieee": "time-ieee", "compile": "time-compile"}
"""The stage of each optional baseline, which the configuration's ``baselines`` may name."""

Baseline = Literal["ieee", "compile"]

TIME_STAGES = ("time-fp32", "time-tf32", *BASELINE_STAGES.values())
EVERY_STAGE = ("compile", "hidden-gate", *TIME_STAGES, "memory")

STAGE_MODES = {
    "time-fp32": "default",
    "time-tf32": "tf32",
    "time-ieee": "ieee",
    "time-compile": COMPILED_BASELINE_MODE,
}
"""The precision mode in which each timing stage runs both of its sides; under another its times have no arm's name."""


def stages_with(baselines: Iterable[str]) -> tuple[str, ...]:
    """The stages of a candidate under these optional baselines, in their order. Raises KeyError for an unknown one."""
    wanted = {*STAGES, *(BASELINE_STAGES[name] for name in baselines)}
    return tuple(stage for stage in EVERY_STAGE if stage in wanted)


def _check(pattern: str, value: str, what: str) -> str:
    if not re.fullmatch(pattern, value):
        raise ValueError(f"{what} {value!r} does not match {pattern}")
    return value


@dataclass(frozen=True, order=True)
class ProblemKey:
    """One problem of one suite, for example ``kernelbench`` and ``level1_19``.

    Raises ValueError where a part does not match its pattern.
    """

    suite: str
    problem: str

    def __post_init__(self) -> None:
        _check(NAME_PATTERN, self.suite, "suite")
        _check(PROBLEM_PATTERN, self.problem, "problem")

    @classmethod
    def from_path(cls, path: Path) -> ProblemKey:
        """Of a problem's source or audit record, wherever its suite's folder lies: ``.../{suite}/{problem}.*``."""
        return cls(path.parent.name, path.stem)

    @property
    def level(self) -> int:
        return int(self.problem.split("_")[0].removeprefix("level"))

    @property
    def number(self) -> int:
        return int(self.problem.split("_")[1])

    def source_path(self, root: Path = Path(".")) -> Path:
        return root / "problems" / self.suite / f"{self.problem}.py"

    def record_path(self, root: Path = Path(".")) -> Path:
        """Path of the problem's audit record."""
        return root / "results" / "problems" / self.suite / f"{self.problem}.json"

    def __str__(self) -> str:
        return f"{self.suite}/{self.problem}"


def candidate_tail(generator: str, suite: str, problem: str, sample: int | str) -> str:
    """``CandidateKey.tail`` of parts that are known to be good: a row's, or a rule's wildcards."""
    return f"{generator}/{suite}/{problem}/{sample}"


@dataclass(frozen=True, order=True)
class CandidateKey:
    """One candidate: a sample that a generator wrote for a problem.

    Raises ValueError where a part does not match its pattern.
    """

    generator: str
    suite: str
    problem: str
    sample: int

    def __post_init__(self) -> None:
        _check(NAME_PATTERN, self.generator, "generator")
        ProblemKey(self.suite, self.problem)
        if self.sample < 0:
            raise ValueError(f"sample {self.sample} is negative")

    @property
    def problem_key(self) -> ProblemKey:
        return ProblemKey(self.suite, self.problem)

    @property
    def tail(self) -> str:
        """The path tail that every file of this candidate repeats, without an ending."""
        return candidate_tail(self.generator, self.suite, self.problem, self.sample)

    def source_path(self, root: Path = Path(".")) -> Path:
        return root / "generations" / f"{self.tail}.py"

    def metadata_path(self, root: Path = Path(".")) -> Path:
        return root / "generations" / f"{self.tail}.json"

    def record_path(self, stage: str, root: Path = Path(".")) -> Path:
        """Path of the record of one stage of EVERY_STAGE. Raises ValueError for any other name."""
        if stage not in EVERY_STAGE:
            raise ValueError(f"stage {stage!r} is none of {', '.join(EVERY_STAGE)}")
        return root / "results" / stage / f"{self.tail}.json"

    def __str__(self) -> str:
        return self.tail

    @classmethod
    def from_tail(cls, tail: str) -> CandidateKey:
        """Inverse of ``tail``; an ending of ``.py`` or ``.json`` is accepted. Raises ValueError."""
        parts = tail.removesuffix(".py").removesuffix(".json").split("/")
        if len(parts) != 4 or not re.fullmatch(SAMPLE_PATTERN, parts[3]):
            raise ValueError(f"{tail!r} is not generator/suite/problem/sample")
        return cls(parts[0], parts[1], parts[2], int(parts[3]))
