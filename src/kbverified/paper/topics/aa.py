"""A/A: renamed references, whose every ratio is 1 in truth, as this run measured them.

Which generators consist of them is said by the configuration (``paper.references``): a model's candidate may look like
a renamed reference too, and is none that we made. Ratios and intervals are those of the kernel table.
"""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from kbverified import protocol
from kbverified.aa import ARM_OF_STAGE, Repeat, Study, repeats_of, studies
from kbverified.keys import STAGE_MODES
from kbverified.leaderboard.estimates import estimate_of
from kbverified.leaderboard.model import Estimate
from kbverified.paper.finding import Finding, claim, conditions, report
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import level_word
from kbverified.paper.table import Cell, Column, Table
from kbverified.paper.topics.aa_figures import ratios_and_coverage
from kbverified.round_statistics import Estimated

TOPIC = "aa"

_COLUMNS = (
    Column("generator", "generator"),
    Column("mode", "mode"),
    Column("level", "level"),
    Column("n_repeats", "repeats", kind="count"),
    Column("n_problems", "problems", kind="count"),
    Column("n_unstable", "unstable", kind="count"),
    Column("n_other", "failed", kind="count"),
    Column("n_known", "with interval", kind="count"),
    Column("mean_ratio", "mean ratio", kind="factor", digits=4, interval=True),
    Column("within_1", "within 1 %", unit="% of repeats", kind="percent", interval=True),
    Column("within_3", "within 3 %", unit="% of repeats", kind="percent", interval=True),
    Column("furthest", "furthest", kind="factor", digits=4),
    Column("coverage", "intervals with 1", kind="percent", interval=True),
    Column("sd_lacking", "sd lacking", kind="percent", digits=2),
)


def why_none(inputs: PaperInputs) -> str | None:
    """Why there is no A/A in this run; None where there is one."""
    named = ", ".join(inputs.references) or "none"
    if not any(name in inputs.references for name in inputs.generators):
        return (
            f"no generator of this run consists of renamed references (paper.references names {named}); "
            "python -m benchmarks.references writes one"
        )
    return None if any(found(inputs).values()) else f"no timing record of {named}"


def found(inputs: PaperInputs) -> dict[str, list[Repeat]]:
    """The repeats of every generator of renamed references, in the order of generators."""
    return {name: repeats_of(inputs.rows[name]) for name in inputs.generators if name in inputs.references}


def studied(inputs: PaperInputs) -> dict[str, list[Study]]:
    """Of each such generator: each stage, level by level and as a whole."""
    confidence, resamples = inputs.settings.confidence, inputs.settings.resamples
    return {
        name: studies(several, confidence=confidence, resamples=resamples) for name, several in found(inputs).items()
    }


def mode_of(study: Study) -> str:
    return STAGE_MODES[study.stage]


def estimated(number: Estimated, study: Study, n: int | None = None) -> Estimate:
    """A number of a study; ``n`` is how many repeats it is of, where that is not all that are known."""
    few = f"no interval: only {study.n_problems_known} problems"
    n = study.n_known if n is None else n
    return estimate_of(number.value, number.interval, n, "no repeat with an interval", few)


def tables(inputs: PaperInputs) -> list[Table]:
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            mode_of(one),
            level_word(one.level),
            one.n,
            one.n_problems,
            one.n_unstable,
            one.n_other,
            one.n_known,
            estimated(one.mean_ratio, one, one.n_problems_known),
            estimated(one.within_1, one),
            estimated(one.within_3, one),
            one.furthest,
            estimated(one.coverage, one),
            one.sd_for_coverage,
        )
        for name, several in studied(inputs).items()
        for one in several
    ]
    return [Table("aa", "A/A: renamed references against themselves", _note(inputs), _COLUMNS, tuple(rows))]


def _note(inputs: PaperInputs) -> str:
    if why := why_none(inputs):
        return f"Not measured: {why}."
    c = inputs.leaderboard.conditions
    between = {kind: sd for kind, sd in protocol.BETWEEN_PROCESS_SD.items() if sd}
    held = ", ".join(f"{100 * sd:g} % ({kind})" for kind, sd in between.items()) or "no variance between processes"
    pairs = "; ".join(f"mode {STAGE_MODES[stage]}: the {arm} arm" for stage, arm in ARM_OF_STAGE.items())
    return (
        f"Every ratio is 1 in truth. {pairs}, each of one record. mean ratio: geometric mean of the problems' means. "
        "Shares are of the repeats with a ratio and an interval; their intervals, and the mean's, are by bootstrap "
        f"over problems. intervals with 1: share of the {100 * c.confidence:g} % intervals with 1 in them; they hold "
        f"{held}. "
        f"sd lacking: the smallest further standard deviation between processes with which {100 * c.confidence:g} % "
        "would. unstable, failed: repeats without a time. Suites are taken together; a dash under furthest or sd "
        "lacking: none has one. "
        f"{'; '.join(c.environments)}."
    )


def figures(inputs: PaperInputs) -> dict[str, Figure]:
    coverage: Mapping[str, list[tuple[Study, Estimate]]] = {
        name: [(one, estimated(one.coverage, one)) for one in several] for name, several in studied(inputs).items()
    }
    return {"aa": ratios_and_coverage(found(inputs), coverage, why_none(inputs), inputs.settings.confidence)}


def findings(inputs: PaperInputs) -> list[Finding]:
    """For each mode: how many repeat within 1 %, and whether intervals are too narrow."""
    if why := why_none(inputs):
        sentence = f"How near to 1 a renamed reference comes out was not measured: {why}."
        return [Finding(TOPIC, sentence, conditions(inputs), None, None, "not measured")]
    made = []
    confidence = inputs.settings.confidence
    for name, several in studied(inputs).items():
        for one in several:
            if one.level is not None:
                continue
            what = f"{one.n_problems_known} problems"
            said = conditions(inputs, arm=ARM_OF_STAGE[one.stage], dtype=inputs.dtypes[name], problems=what)
            where = f"of {name} in mode {mode_of(one)}"
            made += [
                report(
                    TOPIC,
                    f"the share of repeats {where} within 1 % of 1",
                    estimated(one.within_1, one),
                    said,
                    form="percent",
                ),
                claim(
                    TOPIC,
                    f"the share of the {100 * confidence:g} % intervals {where} that contain 1",
                    estimated(one.coverage, one),
                    confidence,
                    said,
                    direction="below",
                    form="percent",
                ),
            ]
    return made
