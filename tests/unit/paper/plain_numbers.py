"""What the paper has to say of the synthetic run, in plain Python from the truth that it was drawn from.

Nothing of the library's metrics, verdicts, arms or statistics is used here: formulas are written out as
docs/protocol.md words them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import combinations

from kbverified.paper.example.run import Example
from kbverified.paper.example.truth import CandidateTruth, ProblemTruth

TAU = {"fp32": 1e-3, "bf16": 1e-2}


def passes(c: CandidateTruth, p: ProblemTruth, test: str, tau: float) -> bool:
    """Of a usable problem."""
    if c.failure is not None and c.failure_from is None:
        return False
    if test == "standard":
        return c.tolerances["d1_original"] <= tau
    right = c.failure is None and all(c.tolerances[name] <= tau for name in p.applicable)
    return right and (test == "hidden" or (c.hardened_ok and not p.undecidable))


def plausible(c: CandidateTruth, p: ProblemTruth, mode: str) -> bool:
    """Whether the claim is not 10 % below the time in which inputs cross the bus, and what of outputs fits no cache."""
    baseline, speedup = (
        (p.baseline_default_ms, c.speedup_default) if mode == "default" else (p.baseline_tf32_ms, c.speedup_tf32)
    )
    assert speedup is not None
    half = 2 if c.dtype == "bf16" else 1
    moved = p.input_bytes // half + max(0, p.output_bytes // half - 60 * 2**20)
    return baseline / speedup >= 0.9 * 1e3 * moved / 4e12


def speedup(c: CandidateTruth, p: ProblemTruth, arm: str) -> float | None:
    """naive: ref(default)/cand(default); published: ref(tf32)/cand(default); matched: ref(tf32)/cand(tf32)."""
    if arm == "matched" and c.dtype == "fp32":
        return c.speedup_tf32 if c.speedup_tf32 and plausible(c, p, "tf32") else None
    if c.speedup_default is None or (arm == "published" and c.dtype == "bf16") or not plausible(c, p, "default"):
        return None
    if arm == "published":
        return p.baseline_tf32_ms / (p.baseline_default_ms / c.speedup_default)
    return c.speedup_default


def active(example: Example, level: int | None) -> list[ProblemTruth]:
    return [p for p in example.problems.values() if p.usable and not p.degenerate and level in (None, p.key.level)]


def samples(example: Example, generator: str) -> dict[str, list[CandidateTruth]]:
    found: dict[str, list[CandidateTruth]] = {}
    for c in example.candidates[generator]:
        found.setdefault(c.key.problem, []).append(c)
    return found


def solved_and_winners(
    example: Example, generator: str, level: int | None, arm: str, test: str, tau: float | None = None
) -> Iterator[tuple[ProblemTruth, bool, CandidateTruth | None]]:
    """Per active problem: whether a sample passes, and the fastest that does and has a speedup."""
    by_problem = samples(example, generator)
    for p in active(example, level):
        if test == "hardened" and p.undecidable:
            continue
        right = [c for c in by_problem.get(p.key.problem, []) if passes(c, p, test, tau or TAU[c.dtype])]
        timed = [c for c in right if speedup(c, p, arm) is not None]
        yield p, bool(right), max(timed, key=lambda c: speedup(c, p, arm) or 0.0, default=None)


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def headline(
    example: Example, generator: str, level: int | None, arm: str, test: str, tau: float | None = None
) -> dict[str, float]:
    """Counts and metrics of one entry; ``memory_*`` are the winner's."""
    found = list(solved_and_winners(example, generator, level, arm, test, tau))
    speeds = [speedup(c, p, arm) or 0.0 for p, _, c in found if c is not None]
    memory = [c.memory_ratio for _, _, c in found if c is not None and c.memory_ratio is not None]
    return {
        "n_problems": len(found),
        "n_solved": sum(right for _, right, _ in found),
        "correctness": sum(right for _, right, _ in found) / len(found),
        "n_timed": len(speeds),
        "correct_speedup": geometric_mean(speeds) if speeds else math.nan,
        "fast_1": sum(value > 1 for value in speeds) / len(found),
        "n_measured": len(memory),
        "memory_efficiency": geometric_mean(memory) if memory else math.nan,
        "memory_efficient": sum(value > 1 for value in memory) / len(found),
    }


def verdict(c: CandidateTruth, p: ProblemTruth) -> str:
    """Of the hidden test."""
    if not p.usable:
        return "not judged"
    if c.failure is not None:
        return c.failure
    return "pass" if passes(c, p, "hidden", TAU[c.dtype]) else "wrong_value"


def taken(example: Example, generators: Iterable[str], level: int | None) -> dict[str, int]:
    """The published decomposition's counts: problems on which some generator's fastest kernel that passes the standard
    test keeps at most half of its speedup under the TF32 baseline, and on which some sample passes the standard
    distribution and fails a hidden one."""
    names = list(generators)
    by_generator = {name: samples(example, name) for name in names}
    counts = dict.fromkeys(("tf32_only", "hidden_only", "both", "neither"), 0)
    for p in active(example, level):
        halved = hidden = False
        for name in names:
            here = by_generator[name].get(p.key.problem, [])
            apparent = [c for c in here if passes(c, p, "standard", TAU[c.dtype])]
            hidden |= any(not passes(c, p, "hidden", TAU[c.dtype]) for c in apparent)
            timed = [c for c in apparent if speedup(c, p, "naive") and speedup(c, p, "published")]
            halved |= bool(timed) and p.baseline_tf32_ms <= 0.5 * p.baseline_default_ms
        counts[{(1, 0): "tf32_only", (0, 1): "hidden_only", (1, 1): "both", (0, 0): "neither"}[halved, hidden]] += 1
    return counts


def best_of(example: Example, generator: str, level: int | None, k: int) -> dict[str, float]:
    """Matched arm, hidden test: what k samples come to, by counting every subset of k of each problem's samples."""
    by_problem = samples(example, generator)
    problems = active(example, level)
    solved = timed = logs = right = 0.0
    for p in problems:
        several = [
            (speedup(c, p, "matched"), passes(c, p, "standard", TAU[c.dtype]), passes(c, p, "hidden", TAU[c.dtype]))
            for c in by_problem[p.key.problem]
        ]
        every = list(combinations(several, k))
        for subset in every:
            speeds = [s for s, _, hidden in subset if hidden and s is not None]
            choices = [(s, hidden) for s, standard, hidden in subset if standard and s is not None]
            solved += any(hidden for *_, hidden in subset) / len(every)
            timed += bool(speeds) / len(every)
            logs += math.log(max(speeds, default=1.0)) / len(every)
            right += bool(choices and max(choices)[1]) / len(every)
    n = len(problems)
    return {
        "pass_at_k": solved / n,
        "correct_speedup": math.exp(logs / timed),
        "right": timed / n,
        "taken_right": right / n,
    }
