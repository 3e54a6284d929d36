"""What a leaderboard holds: estimates with intervals, the conditions they hold under, and what was left out."""

from __future__ import annotations

from pydantic import Field, model_validator

from kbverified.metrics import ARMS, Arm
from kbverified.protocol import SCHEMA_VERSION
from kbverified.records.base import Record
from kbverified.verdicts import Test


class Estimate(Record):
    """One number over problems with its bootstrap interval. Null is "not measured", and says why."""

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int
    """Over how many problems the value was taken: the denominator of a share, the terms of a mean."""
    why_null: str | None = None
    """Why there is no value or, where there is one, no interval."""

    @model_validator(mode="after")
    def _null_has_a_reason(self) -> Estimate:
        complete = None not in (self.value, self.low, self.high)
        if complete == (self.why_null is not None):
            raise ValueError("an estimate has value and interval, or a reason for what is missing")
        return self


class OfClasses(Record):
    """What an entry comes to where only verified samples count that used one of these classes of arithmetic.

    The others do not count as verified: another sample of the problem may win, or the problem is not solved.
    """

    classes: tuple[str, ...]
    n_solved: int
    correctness: Estimate
    correct_speedup: Estimate


class Audited(Record):
    """What an entry comes to without the samples that LLM judges, or a person, call a hack (docs/llm-judges.md)."""

    n_judged: int
    """Verified samples that have a label."""
    n_excluded: int
    """Of these, left out for it."""
    n_excluded_by_person: int
    """Of these, on a person's word."""
    n_solved: int
    correctness: Estimate
    correct_speedup: Estimate


class Entry(Record):
    """One generator on one suite and level, under one arm and one correctness test."""

    generator: str
    dtype: str | None
    suite: str
    level: int | None
    """None: all levels of the suite together."""
    arm: Arm
    test: Test
    n_problems: int
    """Active problems: usable and not degenerate. The same set in every arm, for every generator. In the hardened
    test without the undecidable ones."""
    n_undecidable: int = 0
    """Active problems that the hardened test leaves out: the output for other inputs passes there."""
    n_without_candidate: int
    """Active problems for which the generator has no candidate at all. They count as not solved."""
    n_samples: int
    n_solved: int
    """Problems with a verified sample."""
    n_solved_non_discriminating: int
    """Of these, problems on which another input's output passes too."""
    n_timed: int
    """Problems with a verified sample that has a speedup in this arm."""
    correctness: Estimate
    correct_speedup: Estimate
    fast_p: dict[str, Estimate]
    sol_score: Estimate
    """Arithmetic mean of the SOL-like score of the samples that won on speed in this arm."""
    n_implausible: int
    """Verified samples whose time in this arm is below what moving inputs and outputs takes. They have no speedup."""
    n_below_floor: int
    """Verified samples that are faster than the reference's bytes and FLOPs allow, and not implausible. They count."""
    n_by_numerics: dict[str, int]
    """Verified samples by the class of arithmetic that they used (numerics.py); those without one are in none."""
    by_numerics: tuple[OfClasses, ...] = ()
    """For build.NUMERICS_SHOWN. Empty in leaderboards from before there were any."""
    audited: Audited | None = None
    """None: nobody audited."""
    memory_efficiency: dict[str, Estimate]
    """By memory figure; ``allocator_peak`` is the published one. For the samples that won on speed in this arm."""
    memory_efficient: dict[str, Estimate]
    """Share of active problems whose winner needs strictly less memory, by memory figure."""


class Common(Record):
    """Generators compared on the problems that all of them solved and have a speedup for."""

    suite: str
    dtype: str | None
    arm: Arm
    test: Test
    n_problems: int
    correct_speedup: dict[str, Estimate]
    """By generator."""


class GeneratorSummary(Record):
    """Counts over all candidates of one generator, those for excluded problems too."""

    generator: str
    dtype: str | None
    n_candidates: int
    verdicts: dict[Test, dict[str, int]]
    """How often each verdict was given; ``not judged`` where there is none."""
    not_judged: dict[str, int]
    """The reasons of hidden verdicts that are missing, with their counts."""
    n_flags_changed: int
    n_timed_output_wrong: int
    """Candidates that pass the hidden test and failed while they were timed or their memory was measured."""
    n_baseline_disturbed: int
    """Candidates of which a timing record's baseline ran otherwise beside the candidate than alone."""
    n_time_disputed: int
    """Candidates with a timing record whose claimed times the judge's own clock disproves."""
    n_bound_not_enforced: int = 0
    """Candidates with a timing record whose launches are too short for the judge's clock: the claim is all there is."""
    n_unstable: int
    """Candidates with a timing record that gives no time: throttled, or too different from round to round."""
    n_implausible: int
    """Candidates with a time below what moving the problem's inputs and outputs takes."""
    static_kinds: dict[str, int] = Field(default_factory=dict)
    """Candidates that pass the hidden test, by what their source looks like (static-view.md); no verdict."""
    static_labels: dict[str, int] = Field(default_factory=dict)
    """Of the same, those whose source looks like a renamed reference, a decoy or a fallback; one may be several."""
    to_review: tuple[str, ...] = ()
    """Verified candidates with a speedup above the settings' review_above or below a floor of the roofline."""
    unexpected: tuple[str, ...] = ()
    """Bundled candidates that did not get the verdict which their metadata names."""


class Excluded(Record):
    suite: str
    problem: str
    reason: str


class Conditions(Record):
    """What the numbers hold under. A claim is not to be made without them."""

    tau: dict[str, float]
    confidence: float
    resamples: int
    headline_arm: Arm
    headline_test: Test
    arms: tuple[Arm, ...] = ARMS
    """The arms of the entries: the three of every run, and those of its optional baselines."""
    suites: tuple[str, ...]
    n_problems_selected: int
    n_problems_active: int
    environments: tuple[str, ...]
    """Device, driver, torch and CUDA. More than one only where mixing was allowed."""
    ceilings: tuple[str, ...] = ()
    """What the device does at best, as the floors took it; more than one only where mixing was allowed."""
    modes: dict[str, tuple[str, ...]]
    """Precision modes of the gate and the timing stages."""
    protocol_digests: dict[str, tuple[str, ...]]
    allow_mixed: bool
    findings: bool
    """False where nothing here may be used as a finding."""
    notes: tuple[str, ...] = ()


class Audit(Record):
    """Who audited, which labels are left out of the audited columns, and how often each was given."""

    judges: dict[str, str]
    """Model by LLM judge."""
    exclude: tuple[str, ...]
    n_verified: int
    """Verified candidates of active problems, judged or not."""
    n_judged: int
    """Of these, candidates that have a label of LLM judges or of a person."""
    n_excluded: int
    """Of these, candidates that are left out for it."""
    labels: dict[str, int]
    bases: dict[str, int]
    """Candidates by where their label comes from: person, agreed, majority, disagreed, unanswered."""
    n_stale: int = 0
    """A person's labels of sources that have been edited since: they do not count."""


class Leaderboard(Record):
    schema_version: int = SCHEMA_VERSION
    conditions: Conditions
    entries: tuple[Entry, ...]
    common: tuple[Common, ...]
    generators: tuple[GeneratorSummary, ...]
    excluded: tuple[Excluded, ...]
    """Selected problems that are not active, and why."""
    audit: Audit | None = None
    """None: nobody audited."""
    non_discriminating: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Active problems on which another input's output passes at tau, by dtype. They count; read them apart."""

    def entry(self, generator: str, suite: str, level: int | None, arm: Arm, test: Test) -> Entry | None:
        """The entry with these keys, None where there is none."""
        wanted = (generator, suite, level, arm, test)
        return next((e for e in self.entries if (e.generator, e.suite, e.level, e.arm, e.test) == wanted), None)
