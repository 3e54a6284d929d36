"""What a run answers to the questions of published numbers: an estimate in their unit, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from kbverified import kernel_table, leaderboard
from kbverified.aggregation import AggregationSettings
from kbverified.keys import ProblemKey
from kbverified.leaderboard.estimates import share_estimate
from kbverified.leaderboard.model import Estimate
from kbverified.leaderboard.scopes import Scope
from kbverified.paper.inputs import PaperInputs, make
from kbverified.paper.published import (
    MORE_MEMORY,
    Number,
    Question,
    active_problems,
    models,
    numbers,
    selected_problems,
)
from kbverified.paper.topics.decomposition import TAKEN, UNTIMED, Fate, decompose, together
from kbverified.paper.topics.memory_kernels import kernels_of, share_needing_more
from kbverified.tau_sweep import rows_at


@dataclass(frozen=True)
class Answer:
    """A published number and what this run measured, in the published unit."""

    number: Number
    question: Question
    generator: str | None
    """None: all matched generators together."""
    measured: Estimate

    @property
    def inside(self) -> bool | None:
        """Whether a value that rounds to the published one lies in the measured interval; None without one."""
        low, high = self.measured.low, self.measured.high
        if low is None or high is None:
            return None
        slack = self.question.metric.rounding
        return low <= self.number.value + slack and self.number.value - slack <= high


@dataclass(frozen=True)
class Unanswered:
    number: Number
    reason: str


class Run:
    """A run as far as it speaks to published numbers: its generators by published name, at any tau."""

    def __init__(self, inputs: PaperInputs) -> None:
        """Raises ValueError where two generators of one dtype have one published name."""
        assert inputs.published is not None
        self.inputs = inputs
        self.published = inputs.published
        self.suite = inputs.published_suite
        self.models = models(self.published)
        self.numbers = numbers(self.published)
        self.generators: dict[tuple[str, str], str] = {}
        self._at: dict[tuple[str, float], PaperInputs] = {}
        for generator in inputs.generators:
            key = (inputs.names.get(generator, generator), inputs.dtypes[generator] or "")
            if key[0] not in self.models or generator in inputs.references:
                continue
            if key in self.generators:
                raise ValueError(
                    f"paper.names: {generator} and {self.generators[key]} are both {key[0]} in {key[1]}: only one "
                    "generator of a dtype can stand beside a published model"
                )
            self.generators[key] = generator

    def at(self, dtype: str, tau: float) -> PaperInputs:
        """The run as judged at a tau; at another than its own, the matched generators of the dtype alone."""
        if self.inputs.settings.tau.get(dtype) == tau:
            return self.inputs
        if (dtype, tau) not in self._at:
            settings = self.inputs.settings
            settings = settings.model_copy(update={"tau": {**settings.tau, dtype: tau}})
            names = [generator for (_, kind), generator in self.generators.items() if kind == dtype]
            rows = {name: rows_at(self.inputs.rows[name], {dtype: tau}, self.inputs.problems) for name in names}
            tables = {name: kernel_table.frame(of_one) for name, of_one in rows.items()}
            # Of all that is published about another tau, only the entries that are asked for are made.
            asked = [q for n in self.numbers if (q := n.question) is not None and (q.dtype, q.tau) == (dtype, tau)]
            only = {(q.arm, q.test) for q in asked if q.arm is not None and q.test is not None}
            board = leaderboard.build(tables, self.inputs.problems, settings, only)
            self._at[dtype, tau] = make(tables, self.inputs.problems, settings, self.inputs.taus, board=board)
        return self._at[dtype, tau]

    def answer(self, number: Number) -> Answer | Unanswered:
        question = number.question
        if question is None:
            return Unanswered(number, number.why_not or "not a question to a run")
        if self.suite not in self.inputs.leaderboard.conditions.suites:
            return Unanswered(number, f"the run has no suite {self.suite} (paper.published_suite)")
        generator, found = self._measure(question)
        if isinstance(found, str) or found.value is None:
            return Unanswered(number, found if isinstance(found, str) else found.why_null or "not measured")
        return Answer(number, question, generator, _scaled(found, question.metric.scale))

    def _measure(self, question: Question) -> tuple[str | None, Estimate | str]:
        if question.category is not None:
            return None, self._decomposition(question, question.category)
        generator = self.generators.get((question.model or "", question.dtype))
        if generator is None:
            return None, f"no generator is {question.model} in {question.dtype} (paper.names)"
        assert question.arm is not None and question.test is not None
        view = self.at(question.dtype, question.tau)
        entry = view.leaderboard.entry(generator, self.suite, question.level, question.arm, question.test)
        if entry is None:
            return generator, f"{generator} has no candidate there"
        if why := _other_problems(entry.n_problems, active_problems(self.published).get(question.level), "active "):
            return generator, why
        if question.metric is MORE_MEMORY:
            return generator, self._more_memory(question, generator)
        return generator, question.metric.of(entry) or "the leaderboard's settings leave this metric out"

    def _more_memory(self, question: Question, generator: str) -> Estimate:
        """Share of the verified winners that need more memory than the baseline."""
        view = self.at(question.dtype, question.tau)
        assert question.arm is not None and question.test is not None
        for per_test in view.scopes:
            scope = per_test[question.test]
            if (scope.suite, scope.level) == (self.suite, question.level):
                kernels = kernels_of(view, scope, "allocator_peak", generator, question.arm, question.test)
                return share_needing_more(kernels, view.settings)
        return Estimate(value=None, n=0, why_null="no such level")

    def _decomposition(self, question: Question, category: str) -> Estimate | str:
        """Number of problems in a category, over all published models."""
        if missing := [m for m in self.models if (m, question.dtype) not in self.generators]:
            return f'"some model\'s" means all of the file: no generator is {", ".join(missing)} (paper.names)'
        keys = [k for k in self.inputs.problems if k.suite == self.suite and k.level == question.level]
        if why := _other_problems(len(keys), selected_problems(self.published).get(question.level), ""):
            return why
        view = self.at(question.dtype, question.tau)
        names = [self.generators[model, question.dtype] for model in self.models]
        for part in decompose(view):
            if (part.scope.suite, part.scope.level) == (self.suite, question.level):
                if missing := [name for name in names if name not in part.fates]:
                    return f"{missing[0]} has no candidate there"
                fates = [together(column) for column in zip(*(part.fates[name] for name in names), strict=True)]
                return _count(fates, part.scope, category, len(keys), view.settings)
        return "no candidate there"


def _count(
    fates: Sequence[Fate], scope: Scope, category: str, n_selected: int, settings: AggregationSettings
) -> Estimate | str:
    """As a number of problems; ``neither`` is what is left of the selected ones, as published."""
    passing = [fate for fate in fates if fate.passes]
    if passing and all(fate.tf32 is None for fate in passing):
        return UNTIMED
    wanted = TAKEN if category == "neither" else (category,)
    share = share_estimate([fate.category in wanted for fate in fates], scope, None, settings)
    count = _scaled(share, len(fates))
    if category != "neither" or count.value is None:
        return count
    ends = {"low": count.high, "high": count.low, "value": count.value}
    return count.model_copy(update={name: None if end is None else n_selected - end for name, end in ends.items()})


def _other_problems(here: int, there: int | None, kind: str) -> str | None:
    """Why numbers over different sets of problems are not compared; None where they have as many, or nobody knows."""
    if there is None or here == there:
        return None
    return f"the run has {here} {kind}problems there, the published number was taken over {there}"


def _scaled(estimate: Estimate, scale: float) -> Estimate:
    values: Mapping[str, float | None] = {
        name: None if (value := getattr(estimate, name)) is None else float(f"{scale * value:.9g}")
        for name in ("value", "low", "high")
    }
    return estimate.model_copy(update=dict(values))


@lru_cache(maxsize=1)
def answers(inputs: PaperInputs) -> tuple[list[Answer], list[Unanswered]]:
    """Every number of the inputs' published file, in its order: answered, or with the reason why not.

    Raises ValueError where two generators of one dtype have one published name.
    """
    if inputs.published is None:
        return [], []
    run = Run(inputs)
    every = [run.answer(number) for number in run.numbers]
    return [one for one in every if isinstance(one, Answer)], [one for one in every if isinstance(one, Unanswered)]


def measured_sets(inputs: PaperInputs) -> dict[str, set[str]]:
    """What the audits say of the published suite, as ``published.problem_sets`` names it."""
    keys: list[ProblemKey] = [key for key in inputs.problems if key.suite == inputs.published_suite]
    return {
        "degenerate": {key.problem for key in keys if inputs.problems[key].degenerate},
        "filtered_configs": {
            f"{key.problem} {d.distribution}"
            for key in keys
            for d in inputs.problems[key].distributions
            if not d.applicable
        },
    }
