"""Memory against the baseline: efficiency and the share of memory-efficient winners, and memory against speed.

A winner is the sample that won on speed in the headline arm and test. Ratios are baseline / candidate: above 1 is less
memory. ``allocator_peak`` is the published figure; ``device_peak`` also sees what torch's allocator does not hand out.
"""

from __future__ import annotations

from kbverified.kernel_table import MEMORY_FIELDS
from kbverified.paper.finding import Finding, claim, conditions, report
from kbverified.paper.inputs import PaperInputs
from kbverified.paper.scopes import (
    conditions_for,
    generators_in,
    headline_entries,
    level_word,
    models,
    note_for,
    place,
    suites_of,
)
from kbverified.paper.table import Cell, Column, Table
from kbverified.paper.topics.memory_figures import figures
from kbverified.paper.topics.memory_kernels import FIGURES, QUADRANTS, count_quadrants, kernels_of, share_needing_more

__all__ = ["TOPIC", "figures", "findings", "tables"]

TOPIC = "memory"
PUBLISHED: str = "allocator_peak"
FIGURE_WORDS = {
    "allocator_peak": "peak of torch's allocator, with inputs and weights (the published figure)",
    "allocator_above": "peak of torch's allocator above inputs and weights",
    "device_peak": "peak of the whole device, with CUDA contexts and the judge's own memory",
    "device_above": "peak of the whole device above inputs and weights",
}


# --- tables -------------------------------------------------------------------------------------------------


def tables(inputs: PaperInputs) -> list[Table]:
    return [*(_table(inputs, field) for field in MEMORY_FIELDS), _quadrants(inputs)]


_KEY = (
    Column("generator", "generator"),
    Column("dtype", "dtype"),
    Column("suite", "suite"),
    Column("level", "level"),
)
_COLUMNS = (
    *_KEY,
    Column("n_problems", "active", kind="count"),
    Column("n_timed", "winners", kind="count"),
    Column("n_measured", "measured", kind="count"),
    Column("memory_efficiency", "memory efficiency", kind="factor", interval=True),
    Column("memory_efficient", "memory-efficient", kind="percent", interval=True),
)


def _table(inputs: PaperInputs, field: str) -> Table:
    c = inputs.leaderboard.conditions
    rows: list[tuple[Cell, ...]] = [
        (
            *(e.generator, e.dtype, e.suite, level_word(e.level)),
            *(e.n_problems, e.n_timed, e.memory_efficiency[field].n),
            *(e.memory_efficiency[field], e.memory_efficient[field]),
        )
        for e in headline_entries(inputs)
    ]
    note = (
        f"Memory: {FIGURE_WORDS[field]}; baseline / candidate. memory efficiency: geometric mean over the winners that "
        "were measured; memory-efficient: share of all active problems whose winner needs strictly less than the "
        f"baseline. {note_for(inputs, arm=c.headline_arm, test=c.headline_test)}"
    )
    return Table(f"memory_{field}", f"Memory, {field.replace('_', ' ')}", note, _COLUMNS, tuple(rows))


def _quadrants(inputs: PaperInputs) -> Table:
    c = inputs.leaderboard.conditions
    columns = (
        *_KEY,
        Column("memory_figure", "memory figure"),
        Column("n_measured", "measured", kind="count"),
        *(Column(f"n_{name}", words, kind="count") for name, words, _, _ in QUADRANTS),
        Column("more_memory", "more memory", kind="percent", interval=True),
    )
    rows: list[tuple[Cell, ...]] = []
    for scope in (per_test[c.headline_test] for per_test in inputs.scopes):
        for name in generators_in(inputs, scope.suite):
            for field in FIGURES:
                kernels = kernels_of(inputs, scope, field, name)
                more = share_needing_more(kernels, inputs.settings)
                key = (name, inputs.dtypes[name], scope.suite, level_word(scope.level), field)
                rows.append((*key, len(kernels), *count_quadrants(kernels).values(), more))
    note = (
        "Winners whose memory was measured, by speed (faster: a speedup strictly above 1) and by memory against the "
        "baseline (less, equal, more). more memory: share of the measured winners that need more than the baseline. "
        f"{note_for(inputs, arm=c.headline_arm, test=c.headline_test)}"
    )
    return Table("memory_quadrants", "Winners by speed and memory", note, columns, tuple(rows))


# --- findings -----------------------------------------------------------------------------------------------


def findings(inputs: PaperInputs) -> list[Finding]:
    return [*_means(inputs), *_more(inputs)]


def _means(inputs: PaperInputs) -> list[Finding]:
    """Whether winners need less memory than the baseline on average, and how many do."""
    found = []
    for e in headline_entries(inputs):
        where = place(inputs, e.suite, e.level)
        under = conditions_for(inputs, e, arm=e.arm, test=e.test, generator=e.generator)
        mean = f"the memory efficiency ({PUBLISHED}) of {e.generator} on {where}"
        found.append(claim(TOPIC, mean, e.memory_efficiency[PUBLISHED], 1.0, under))
        if e.level is None:
            share = f"the share of active problems on which the winner of {e.generator} needs less memory, on {where},"
            found.append(claim(TOPIC, share, e.memory_efficient[PUBLISHED], 0.5, under, form="percent"))
    return found


def _more(inputs: PaperInputs) -> list[Finding]:
    """The share of winners, of all generators of a dtype together, that raise the peak."""
    c = inputs.leaderboard.conditions
    found = []
    for scope in (per_test[c.headline_test] for per_test in suites_of(inputs)):
        for dtype in sorted({d for name in models(inputs) if (d := inputs.dtypes[name])}):
            for field in FIGURES:
                names = [name for name in generators_in(inputs, scope.suite) if inputs.dtypes[name] == dtype]
                kernels = [k for name in names for k in kernels_of(inputs, scope, field, name)]
                share = share_needing_more(kernels, inputs.settings)
                problems = f"{len(scope.problems)} active problems of {scope.suite}"
                under = conditions(inputs, arm=c.headline_arm, test=c.headline_test, dtype=dtype, problems=problems)
                who = f"{len(names)} generators" if len(names) > 1 else names[0] if names else "no generator"
                subject = f"the share of the winners of {who} that need more memory ({field}) than the baseline"
                found.append(report(TOPIC, subject, share, under, form="percent"))
    return found
