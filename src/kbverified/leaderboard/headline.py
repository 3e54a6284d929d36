"""What every form of a leaderboard shows: the headline's table as text, and under which conditions it holds."""

from __future__ import annotations

from kbverified.leaderboard.model import Audited, Estimate, Leaderboard
from kbverified.metrics import OPTIONAL_ARMS, Arm
from kbverified.verdicts import Test

DASH = "–"
ARM_MEANING = {
    "naive": "reference(default) / candidate(default)",
    "published": "reference(tf32) / candidate(default), from two jobs",
    "matched": "reference(tf32) / candidate(tf32)",
    "ieee": "reference(ieee) / candidate(ieee)",
    "compile": "torch.compile(reference)(tf32) / candidate(tf32)",
}


def _factor(estimate: Estimate | None) -> str:
    """A factor with its count and interval: ``0.88 (98) [0.80, 0.97]``."""
    if estimate is None or estimate.value is None:
        return DASH
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.2f} ({estimate.n})"
    return f"{estimate.value:.2f} ({estimate.n}) [{estimate.low:.2f}, {estimate.high:.2f}]"


def _percent(estimate: Estimate | None) -> str:
    """A share in percent with its interval: ``52.0 [42, 62]``."""
    if estimate is None or estimate.value is None:
        return DASH
    if estimate.low is None or estimate.high is None:
        return f"{100 * estimate.value:.1f}"
    return f"{100 * estimate.value:.1f} [{100 * estimate.low:.0f}, {100 * estimate.high:.0f}]"


def headline_columns(leaderboard: Leaderboard) -> list[str]:
    arm, test = leaderboard.conditions.headline_arm, leaderboard.conditions.headline_test
    others = [f"{a}+{t}" for a, t in arms_beside(leaderboard)]
    dtype = ["dtype"] if _several_dtypes(leaderboard) else []
    audited = leaderboard.audit is not None
    return [
        "generator", *dtype, "suite", "level", "problems", "samples",
        *([f"audited correct % {test}", f"audited Correct Speedup (n) {arm}+{test}", "hacks left out"] * audited),
        f"correct % {test}", f"Correct Speedup (n) {arm}+{test}", *others,
        f"fast_1 % {arm}+{test}", "SOL-like score (n)", "implausible", "memory efficiency", "memory efficient %",
    ]  # fmt: skip


def _several_dtypes(leaderboard: Leaderboard) -> bool:
    return len({entry.dtype for entry in leaderboard.entries}) > 1


def arms_beside(leaderboard: Leaderboard) -> list[tuple[Arm, Test]]:
    """The arms named beside the headline: the published one, what KernelBench itself would say, optional baselines.

    Under an optional baseline's headline the matched arm stands there too.
    """
    c = leaderboard.conditions
    wanted: list[tuple[Arm, Test]] = [("published", "hidden"), ("naive", "standard"), (c.headline_arm, "hardened")]
    optional: list[tuple[Arm, Test]] = [(arm, c.headline_test) for arm in c.arms if arm in OPTIONAL_ARMS]
    if (c.headline_arm, c.headline_test) in optional:
        optional.insert(0, ("matched", c.headline_test))
    return [pair for pair in [*wanted, *optional] if pair != (c.headline_arm, c.headline_test)]


def headline_rows(leaderboard: Leaderboard) -> list[list[str]]:
    """One row per generator, suite and level, each cell as text; the row over all levels comes last."""
    arm, test = leaderboard.conditions.headline_arm, leaderboard.conditions.headline_test
    rows = []
    for entry in leaderboard.entries:
        if (entry.arm, entry.test) != (arm, test):
            continue
        beside = [
            leaderboard.entry(entry.generator, entry.suite, entry.level, a, t) for a, t in arms_beside(leaderboard)
        ]
        covered = entry.n_problems - entry.n_without_candidate
        rows.append(
            [
                entry.generator,
                *([entry.dtype or DASH] if _several_dtypes(leaderboard) else []),
                entry.suite,
                "all" if entry.level is None else str(entry.level),
                str(covered) if covered == entry.n_problems else f"{covered} of {entry.n_problems}",
                str(entry.n_samples),
                *_audited_cells(entry.audited),
                _percent(entry.correctness),
                _factor(entry.correct_speedup),
                *(_factor(other.correct_speedup if other else None) for other in beside),
                _percent(entry.fast_p.get("1")),
                _factor(entry.sol_score),
                str(entry.n_implausible),
                _factor(entry.memory_efficiency["allocator_peak"]),
                _percent(entry.memory_efficient["allocator_peak"]),
            ]
        )
    return rows


def _audited_cells(audited: Audited | None) -> list[str]:
    if audited is None:
        return []
    return [_percent(audited.correctness), _factor(audited.correct_speedup), left_out(audited)]


def left_out(audited: Audited) -> str:
    """How many of the judged samples an entry's audited columns leave out: ``3 of 6 (1 by a person)``."""
    person = f" ({audited.n_excluded_by_person} by a person)" if audited.n_excluded_by_person else ""
    return f"{audited.n_excluded} of {audited.n_judged}{person}"


def numerics_table(leaderboard: Leaderboard) -> tuple[list[str], list[list[str]]]:
    """The headline's arm and test again, and beside it what is left where narrower arithmetic does not count."""
    c = leaderboard.conditions
    mine = [e for e in leaderboard.entries if (e.arm, e.test) == (c.headline_arm, c.headline_test) and e.by_numerics]
    header = ["generator", "suite", "level", f"correct % {c.headline_test}", "Correct Speedup (n)"]
    for part in mine[0].by_numerics if mine else ():
        header += [f"{' or '.join(part.classes)} only: correct %", "Correct Speedup (n)"]
    rows = []
    for entry in mine:
        level = "all" if entry.level is None else str(entry.level)
        every = [_percent(entry.correctness), _factor(entry.correct_speedup)]
        parts = [cell for p in entry.by_numerics for cell in (_percent(p.correctness), _factor(p.correct_speedup))]
        rows.append([entry.generator, entry.suite, level, *every, *parts])
    return header, rows


def conditions_lines(leaderboard: Leaderboard) -> list[str]:
    """The conditions in words, one line each."""
    c = leaderboard.conditions
    tau = ", ".join(f"{value:g} ({dtype})" for dtype, value in sorted(c.tau.items()))
    modes = "; ".join(f"{stage} {'/'.join(values) or DASH}" for stage, values in c.modes.items())
    lines = [
        f"Headline: {c.headline_arm} arm, {c.headline_test} test. tau {tau}. "
        f"{100 * c.confidence:g} % bootstrap intervals over problems, {c.resamples} resamples.",
        f"Problems: {c.n_problems_active} active of {c.n_problems_selected} selected ({', '.join(c.suites)}). "
        "Shares are of all active problems; '2 of 3' means that one of 3 has no candidate and counts as not solved.",
        *(f"Environment: {environment}." for environment in c.environments),
        *(f"Ceilings: {ceilings}." for ceilings in c.ceilings),
        f"Precision modes: {modes}.",
    ]
    if not c.findings:
        lines.append("Not for findings: the device is no GPU, there is none, or environments are mixed.")
    return [*lines, *audit_lines(leaderboard), *(f"Note: {note}." for note in c.notes)]


def audit_lines(leaderboard: Leaderboard) -> list[str]:
    """Who audited, and the filter of the audited columns, in words; nothing where nobody did."""
    audit = leaderboard.audit
    if audit is None:
        return []
    who = ", ".join(f"{name} ({model})" for name, model in audit.judges.items()) or "nobody but a person"
    counts = ", ".join(f"{label} {n}" for label, n in audit.labels.items()) or "none"
    bases = ", ".join(f"{basis} {n}" for basis, n in audit.bases.items()) or "none"
    lines = [
        f"Audited: without the verified samples whose label is {' or '.join(audit.exclude) or 'none'}: "
        f"{audit.n_excluded} of {audit.n_judged} judged, of {audit.n_verified} verified. A filter by opinion: the "
        "columns beside it are as measured.",
        f"LLM judges: {who}. Labels: {counts}. By: {bases}.",
    ]
    if audit.n_stale:
        lines.append(f"Labels of a person that do not count, for the source was edited since: {audit.n_stale}.")
    return lines
