"""What the example's problems and candidates are, drawn from a seed: plain numbers, before there is any record.

Every draw is from a generator of random numbers of its own, seeded by the name of what is drawn, so that a smaller
example is a part of the larger one. Python's ``random`` gives the same numbers on every machine.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from kbverified.keys import CandidateKey, ProblemKey
from kbverified.protocol import DISTRIBUTIONS, STANDARD_DISTRIBUTION, TIMING_WORTHLESS_TOLERANCE

SUITE = "synthetic"
LEVELS = {1: 100, 2: 100, 3: 50}
"""Problems by level, as many as KernelBench has."""

SKILL = {"alder": 0.95, "birch": 0.85, "cedar": 0.9, "hazel": 0.7, "larch": 0.75, "maple": 0.65, "rowan": 0.55}
"""The seven generators, and the share of their samples that are meant to be right."""
NARROW = "alder-bf16"
"""The first one's candidates in bf16."""
RENAMED = "renamed-reference"
"""References themselves: every speedup is 1."""
SAMPLES = 5
NARROW_SAMPLES = 2
RENAMED_PROBLEMS = 60
RENAMED_SAMPLES = 3

DEGENERATE = ("level2_23", "level2_80", "level2_83")
UNUSABLE = "level3_50"
NON_DISCRIMINATING = ("level1_23", "level1_37", "level2_36", "level2_58", "level3_7", "level3_28")
UNDECIDABLE = ("level2_36", "level3_28")
"""Of those, where the output for other inputs passes under the hardened laws too."""
NOT_APPLICABLE = {"level1_90": "d2_scale_3", "level1_98": "d4_negate"}

BANDWIDTH = 4e12
CACHE_BYTES = 60 << 20
IEEE_FLOPS, TF32_FLOPS, BF16_FLOPS = 50e12, 400e12, 800e12
"""The device's ceilings, per second."""

FAILURES = (
    "compile_error",
    "runtime_error",
    "wrong_shape",
    "timeout",
    "crash",
    "init_error",
    "mutates_input",
    "no_code",
)
_WEIGHTS = (30, 20, 12, 6, 4, 6, 3, 2)
BEFORE_THE_GATE = ("no_code", "compile_error")


@dataclass(frozen=True)
class ProblemTruth:
    key: ProblemKey
    degenerate: bool
    usable: bool
    non_discriminating: bool
    undecidable: bool
    hard: bool
    """Most samples fail."""
    fragile: bool
    """A kernel that is right under the original inputs may well be wrong under others."""
    applicable: tuple[str, ...]
    baseline_default_ms: float
    baseline_tf32_ms: float
    input_bytes: int
    output_bytes: int
    flops: int
    peak_bytes: int

    @property
    def active(self) -> bool:
        return self.usable and not self.degenerate


@dataclass(frozen=True)
class CandidateTruth:
    key: CandidateKey
    dtype: str
    failure: str | None = None
    """A failure that no tolerance can mend."""
    failure_from: str | None = None
    """The first distribution under which it shows; None: everywhere, or before any."""
    tolerances: dict[str, float] = field(default_factory=dict)
    """Critical tolerance of every applicable distribution that was compared."""
    hardened_ok: bool = True
    speedup_default: float | None = None
    """Baseline / candidate, both in mode default; None where there is no time."""
    speedup_tf32: float | None = None
    why_no_time: str | None = None
    """The verdict of the timing stages, where it is no pass."""
    memory_ratio: float | None = None
    """Baseline / candidate peak, as whole bytes allow; None: the stage was not reached, or was skipped."""
    numerics: str = "fp32"


def problem_keys(levels: dict[int, int] = LEVELS) -> list[ProblemKey]:
    return [ProblemKey(SUITE, f"level{level}_{n}") for level, count in levels.items() for n in range(1, count + 1)]


def draw_problem(key: ProblemKey, seed: int) -> ProblemTruth:
    """One problem. Its TF32 gain is what the default baseline leaves unused, most on level 2."""
    drawn = _random(seed, str(key))
    moved = int(2 ** drawn.uniform(24, 32)) // 4096 * 4096
    moving_ms = 1e3 * moved / BANDWIDTH
    # A sixth of them computes longer than it moves, in convolutions, where torch's defaults have TF32 on already.
    computes = drawn.random() < 1 / 6
    flops = int(drawn.uniform(2.0, 5.0) * moving_ms * 1e-3 * TF32_FLOPS) if computes else 0
    tf32_ms = max(moving_ms, 1e3 * flops / TF32_FLOPS) * drawn.uniform(2.5, 12.0) + 0.02
    share, most = {1: (0.15, 8.0), 2: (0.5, 5.0), 3: (0.2, 3.0)}[key.level]
    gains = drawn.random() < share and not computes
    gain = drawn.uniform(1.5, most) if gains else drawn.uniform(1.0, 1.05)
    name = key.problem
    left_out = NOT_APPLICABLE.get(name)
    return ProblemTruth(
        key=key,
        degenerate=name in DEGENERATE,
        usable=name != UNUSABLE,
        non_discriminating=name in NON_DISCRIMINATING,
        undecidable=name in UNDECIDABLE,
        hard=drawn.random() < 0.1,
        fragile=drawn.random() < {1: 0.25, 2: 0.08, 3: 0.05}[key.level],
        applicable=tuple(d for d in DISTRIBUTIONS if d != left_out),
        baseline_default_ms=_digits(tf32_ms * gain),
        baseline_tf32_ms=_digits(tf32_ms),
        input_bytes=moved * 3 // 4 // 512 * 512,
        output_bytes=moved // 4 // 512 * 512,
        flops=flops,
        peak_bytes=moved * 2,
    )


def draw_candidate(key: CandidateKey, problem: ProblemTruth, seed: int) -> CandidateTruth:
    """One sample of one of the seven generators."""
    drawn = _random(seed, key.tail)
    skill = SKILL[key.generator] - {1: 0.0, 2: 0.05, 3: 0.15}[problem.key.level] - (0.5 if problem.hard else 0.0)
    if drawn.random() < (1 - skill) * 0.6:
        return CandidateTruth(key, "fp32", failure=drawn.choices(FAILURES, _WEIGHTS)[0])
    numerics = "tf32" if drawn.random() < 0.25 else "fp32"
    return _answering(key, problem, "fp32", drawn, numerics, wrong=(1 - skill) * 0.4)


def draw_narrow(key: CandidateKey, problem: ProblemTruth, seed: int) -> CandidateTruth:
    """One sample in bf16: fewer are right, and those are faster. TF32 has no effect there."""
    drawn = _random(seed, key.tail)
    if drawn.random() < 0.15:
        return CandidateTruth(key, "bf16", failure=drawn.choices(FAILURES, _WEIGHTS)[0])
    return _answering(key, problem, "bf16", drawn, "half", wrong=0.3 if problem.hard else 0.1)


def draw_renamed(key: CandidateKey, problem: ProblemTruth, seed: int) -> CandidateTruth:
    """A reference beside itself: right to the bit, as fast to a few thousandths, with the same memory."""
    drawn = _random(seed, key.tail)
    return CandidateTruth(
        key,
        "fp32",
        tolerances=dict.fromkeys(problem.applicable, 0.0),
        speedup_default=_digits(math.exp(drawn.gauss(0.0, 0.003))),
        speedup_tf32=_digits(math.exp(drawn.gauss(0.0, 0.003))),
        memory_ratio=1.0,
    )


def _answering(
    key: CandidateKey, problem: ProblemTruth, dtype: str, drawn: random.Random, numerics: str, wrong: float
) -> CandidateTruth:
    """A candidate that gives an answer: how far off, how fast, how large."""
    tolerances, failure_from = _tolerances(problem, drawn, numerics, wrong)
    failure = "nonfinite" if failure_from else None
    timed = tolerances[STANDARD_DISTRIBUTION] <= TIMING_WORTHLESS_TOLERANCE
    level = problem.key.level
    speed = math.exp(drawn.gauss({1: -0.6, 2: -0.45, 3: -0.7}[level], 0.6)) * (1.8 if dtype == "bf16" else 1.0)
    # Tensor cores only for those that use them: without, the TF32 baseline runs away from the candidate.
    gain = problem.baseline_default_ms / problem.baseline_tf32_ms
    kept = gain if numerics == "fp32" and drawn.random() < 0.6 else 1.0
    why = "unstable" if timed and drawn.random() < 0.01 else None
    measured = timed and why is None
    ratio = math.exp(drawn.gauss(0.05, 0.35)) if drawn.random() < 0.6 else 1.0
    return CandidateTruth(
        key,
        dtype,
        failure=failure,
        failure_from=failure_from,
        tolerances=tolerances,
        hardened_ok=drawn.random() < 0.93,
        speedup_default=_digits(speed) if measured else None,
        speedup_tf32=_digits(speed / kept) if measured and dtype == "fp32" else None,
        why_no_time=why,
        memory_ratio=_whole(problem.peak_bytes, ratio) if timed and drawn.random() < 0.985 else None,
        numerics=numerics,
    )


def _tolerances(
    problem: ProblemTruth, drawn: random.Random, numerics: str, wrong: float
) -> tuple[dict[str, float], str | None]:
    """Critical tolerance by distribution, and the distribution under which the answer is not finite."""
    exponents = {"fp32": (-6.5, -4.2), "tf32": (-4.3, -3.05), "half": (-3.2, -2.1)}
    base = 10.0 ** drawn.uniform(*exponents[numerics])
    if drawn.random() < wrong:
        base = 10.0 ** drawn.uniform(-2.5, 0.5)
    tolerances = {name: _digits(base * abs(DISTRIBUTIONS[name]) ** 0.5) for name in problem.applicable}
    if drawn.random() >= (0.6 if problem.fragile else 0.01):
        return tolerances, None
    hidden, off = drawn.choice((("d2_scale_3", True), ("d4_negate", True), ("d2_scale_3", False)))
    if hidden not in tolerances:
        return tolerances, None
    if off:
        return tolerances | {hidden: _digits(10.0 ** drawn.uniform(-1.9, 0.5))}, None
    return {name: value for name, value in tolerances.items() if name != hidden}, hidden


def _random(seed: int, name: str) -> random.Random:
    return random.Random(f"{seed}/{name}")


def _digits(value: float) -> float:
    """As a record keeps it: six significant digits."""
    return float(f"{value:.6g}")


def _whole(peak_bytes: int, ratio: float) -> float:
    """The ratio of whole bytes that is nearest."""
    return peak_bytes / round(peak_bytes / ratio)
