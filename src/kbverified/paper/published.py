"""Published numbers: which question each of them answers, and what this run answers to the same question.

The shape is that of config/published.json: sections of models, levels and metrics. Every number in the file is looked
at. One that the run can speak to stands beside a measured one, matched by the generator's published name
(``paper.names`` of the configuration), dtype, level, tau, arm, test and metric; every other one is listed with the
reason. How sections are read:

* ``verified``, ``overall``: the published arm and the hidden test, fp32 at the published tau.
* ``bf16``: the matched arm, since precision modes have no effect on bf16; the hidden test at its own tau.
* ``tolerance``: as ``verified``, at the tau that it names.
* ``four_conditions_from_figure7``: ``fp32_`` is the naive arm, ``tf32_`` the published one, then the test.
* ``decomposition``: problems by what takes an apparent win away, over all models of the file together.
* ``headline``: of the model with the largest overall Correct Speedup: naive arm and standard test, published arm and
  hidden test, and the share of its verified winners that need more memory.

A number about a level is only compared where the run has as many problems as the published one was taken over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from kbverified import protocol
from kbverified.leaderboard.model import Entry, Estimate
from kbverified.metrics import Arm
from kbverified.verdicts import Test

Path = tuple[str, ...]


@dataclass(frozen=True)
class Metric:
    """A metric of an entry of the leaderboard, in the unit in which it is published."""

    words: str
    scale: float
    """Published unit per unit of the leaderboard: 100 for percent."""
    rounding: float
    """Half a unit of the last published digit: the published value stands for all that round to it."""
    of: Callable[[Entry], Estimate | None]


METRICS: dict[str, Metric] = {
    "correct_speedup": Metric("Correct Speedup", 1.0, 0.005, lambda e: e.correct_speedup),
    "correctness_pct": Metric("correctness (%)", 100.0, 0.05, lambda e: e.correctness),
    "fast_1_pct": Metric("fast_1 (%)", 100.0, 0.05, lambda e: e.fast_p.get("1")),
    "mem_efficiency": Metric("memory efficiency", 1.0, 0.005, lambda e: e.memory_efficiency.get("allocator_peak")),
    "mem_efficient_pct": Metric(
        "memory-efficient (%)", 100.0, 0.05, lambda e: e.memory_efficient.get("allocator_peak")
    ),
}
"""By the name of the field in the file."""
MORE_MEMORY = Metric("winners that need more memory (%)", 100.0, 0.5, lambda e: None)
CATEGORIES = ("tf32_only", "hidden_only", "both", "neither")


@dataclass(frozen=True)
class Question:
    """What a published number answers, in the words of this project."""

    metric: Metric
    model: str | None
    """None: all models of the file together."""
    level: int | None
    dtype: str
    tau: float
    arm: Arm | None
    """None: several arms."""
    test: Test | None
    category: str | None = None
    """Of the decomposition."""


@dataclass(frozen=True)
class Number:
    """One number of the file."""

    path: Path
    value: float
    question: Question | None
    why_not: str | None = None
    """Why no run can answer; None where ``question`` says what is asked."""

    @property
    def section(self) -> str:
        return self.path[0]

    @property
    def field(self) -> str:
        """Where it stands in the file."""
        return ".".join(self.path)


NO_RECORD = {
    "audit": "two language models' reading of sources: no record holds anything like it",
    "input_blind": "about the prompts that were given to models: no run of ours holds those",
}


def numbers(published: Mapping[str, Any]) -> list[Number]:
    """Every number of the file, in its order. Lists name problems, and are compared as sets: see ``problem_sets``."""
    found = []
    for path, value in _leaves(published):
        question = _question(path, published)
        why = question if isinstance(question, str) else None
        found.append(Number(path, value, None if isinstance(question, str) else question, why))
    return found


def _leaves(node: object, path: Path = ()) -> Iterator[tuple[Path, float]]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _leaves(value, (*path, str(key)))
    elif isinstance(node, int | float) and not isinstance(node, bool):
        yield path, float(node)


def _question(path: Path, published: Mapping[str, Any]) -> Question | str:
    """What a number answers, or why no run can say it."""
    section, *rest = path
    tau = protocol.TAU
    match (section, *rest):
        case ("verified", model, level, field) if field in METRICS and _is_level(level):
            return Question(METRICS[field], model, _level(level), "fp32", tau["fp32"], "published", "hidden")
        case ("overall", model, field) if field in METRICS:
            return Question(METRICS[field], model, None, "fp32", tau["fp32"], "published", "hidden")
        case ("bf16", model, level, field) if field in METRICS and _is_level(level):
            return Question(METRICS[field], model, _level(level), "bf16", tau["bf16"], "matched", "hidden")
        case ("tolerance", model, level, at, field) if field in METRICS and _is_level(level) and _tau(at):
            return Question(METRICS[field], model, _level(level), "fp32", _tau(at) or 0.0, "published", "hidden")
        case ("four_conditions_from_figure7", model, level, condition) if condition in CONDITIONS and _is_level(level):
            arm, test = CONDITIONS[condition]
            speedup = METRICS["correct_speedup"]
            return Question(speedup, model, _level(level), "fp32", tau["fp32"], arm, test)
        case ("decomposition", "counts", level, category) if category in CATEGORIES and _is_level(level):
            words = Metric(f"problems, {category.replace('_', ' ')}", 1.0, 0.0, lambda e: None)
            return Question(words, None, _level(level), "fp32", tau["fp32"], None, None, category)
        case ("headline", field) if field in HEADLINE:
            metric, arm, test = HEADLINE[field]
            best = best_model(published)
            if best is None:
                return "the file has no overall Correct Speedup to tell which model it is of"
            return Question(metric, best, None, "fp32", tau["fp32"], arm, test)
        case ("decomposition", "denominator"):
            return "the number of problems that the counts are of, no result"
    return NO_RECORD.get(section, "not a number of a kind that a run measures")


CONDITIONS: dict[str, tuple[Arm, Test]] = {
    "fp32_standard": ("naive", "standard"),
    "fp32_hidden": ("naive", "hidden"),
    "tf32_standard": ("published", "standard"),
    "tf32_hidden": ("published", "hidden"),
}
HEADLINE: dict[str, tuple[Metric, Arm, Test]] = {
    "naive": (METRICS["correct_speedup"], "naive", "standard"),
    "verified": (METRICS["correct_speedup"], "published", "hidden"),
    "kernels_increasing_peak_memory_pct": (MORE_MEMORY, "published", "hidden"),
}


def best_model(published: Mapping[str, Any]) -> str | None:
    """The model with the largest overall Correct Speedup; None where the file has none."""
    overall = {m: v["correct_speedup"] for m, v in published.get("overall", {}).items() if "correct_speedup" in v}
    return max(overall, key=lambda model: overall[model]) if overall else None


def models(published: Mapping[str, Any]) -> tuple[str, ...]:
    """All models that a section names, in order."""
    sections = ("verified", "overall", "bf16", "tolerance", "four_conditions_from_figure7")
    return tuple(dict.fromkeys(model for section in sections for model in published.get(section, {})))


def _is_level(text: str) -> bool:
    return text.removeprefix("level").isdecimal() and text.startswith("level")


def _level(text: str) -> int:
    return int(text.removeprefix("level"))


def _tau(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value > 0 else None


# --- the shape of the file ----------------------------------------------------------------------------------

_DEPTHS = {"verified": 3, "overall": 2, "bf16": 3, "tolerance": 4, "four_conditions_from_figure7": 3, "headline": 1}
"""How many names lead from each section to a number."""


def misshapen(published: Mapping[str, Any]) -> Iterator[tuple[str, object, str]]:
    """Of all that is read by name and is not what it is read as: where it stands, what it is, what it should be."""
    for section, depth in _DEPTHS.items():
        if section in published:
            yield from _no_numbers(published[section], section, depth)
    decomposition = published.get("decomposition", {})
    if not isinstance(decomposition, Mapping):
        yield "decomposition", decomposition, "an object"
    else:
        yield from _no_numbers(decomposition.get("counts", {}), "decomposition.counts", 2)
        yield from _no_levels(decomposition.get("counts", {}), "decomposition.counts")
    yield from _no_lists(published.get("degenerate", {}), "degenerate", int, "a list of problems' numbers")
    yield from _no_levels(published.get("degenerate", {}), "degenerate")
    yield from _no_lists({"": published.get("filtered_configs", [])}, "filtered_configs", str, "a list of texts")


def _no_numbers(node: object, field: str, depth: int) -> Iterator[tuple[str, object, str]]:
    if depth == 0:
        if not isinstance(node, int | float) or isinstance(node, bool):
            yield field, node, "a number"
    elif not isinstance(node, Mapping):
        yield field, node, "an object"
    else:
        for name, inner in node.items():
            yield from _no_numbers(inner, f"{field}.{name}", depth - 1)


def _no_levels(node: Mapping[str, object], field: str) -> Iterator[tuple[str, object, str]]:
    for name in node:
        if not _is_level(name):
            yield field, name, "a level, as level1"


def _no_lists(node: object, field: str, of: type, wanted: str) -> Iterator[tuple[str, object, str]]:
    if not isinstance(node, Mapping):
        yield field, node, "an object"
        return
    for name, inner in node.items():
        if not isinstance(inner, list) or not all(isinstance(one, of) for one in inner):
            yield f"{field}.{name}".rstrip("."), inner, wanted


# --- the problems that the numbers were taken over ----------------------------------------------------------


def selected_problems(published: Mapping[str, Any]) -> dict[int | None, int]:
    """Problems per level (None: all) that the published counts are of; empty where the file has none."""
    counts = published.get("decomposition", {}).get("counts", {})
    found: dict[int | None, int] = {_level(name): sum(of_one.values()) for name, of_one in counts.items()}
    return found | {None: sum(found.values())} if found else {}


def active_problems(published: Mapping[str, Any]) -> dict[int | None, int]:
    """The same without the degenerate ones: what the published means and shares are taken over."""
    found = selected_problems(published)
    left_out: Mapping[str, list[int]] = published.get("degenerate", {})
    for name, several in left_out.items():
        for level in (_level(name), None):
            if level in found:
                found[level] -= len(several)
    return found


def problem_sets(published: Mapping[str, Any]) -> dict[str, set[str]]:
    """Lists of problems that a run finds too: ``degenerate`` as ``level2_23``, ``filtered_configs`` as
    ``level1_90 d2_scale_3``. A name that cannot be read stays as it is."""
    found: dict[str, set[str]] = {}
    if "degenerate" in published:
        listed = cast(Mapping[str, list[int]], published["degenerate"])
        found["degenerate"] = {f"{level}_{number}" for level, several in listed.items() for number in several}
    if "filtered_configs" in published:
        found["filtered_configs"] = {_configuration(text) for text in published["filtered_configs"]}
    return found


_LAWS = {"x3": "d2_scale_3", "x0.01": "d3_scale_0.01", "negation": "d4_negate"}


def _configuration(text: str) -> str:
    """``level1/90 under x3`` -> ``level1_90 d2_scale_3``."""
    problem, _, law = text.partition(" under ")
    return f"{problem.replace('/', '_')} {_LAWS[law]}" if law in _LAWS else text
