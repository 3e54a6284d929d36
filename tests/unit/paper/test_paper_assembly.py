"""findings.md: order, wording of outcomes, conditions with every sentence; and the run in short, each setting alike."""

from __future__ import annotations

import re

import pytest
from hand_made import inputs, row

from kbverified.aggregation import AggregationSettings
from kbverified.leaderboard.model import Estimate
from kbverified.paper import assembly, build
from kbverified.paper.finding import Finding, claim, report
from kbverified.paper.topics import headline


def estimate(low: float, value: float, high: float) -> Estimate:
    return Estimate(value=value, low=low, high=high, n=50)


FINDINGS = [
    claim("verified", "the speedup of g", estimate(1.1, 1.2, 1.3), 1.0, "tau 0.001, fp32"),
    claim("verified", "the speedup of h", estimate(0.9, 1.0, 1.1), 1.0, "tau 0.01, bf16"),
    claim("verified", "the speedup of i", estimate(0.7, 0.8, 0.9), 1.0, "tau 0.001, fp32"),
    report("new_topic", "the share", estimate(0.1, 0.2, 0.3), "no device", form="percent"),
    Finding("new_topic", "Nothing was measured.", "no device", None, None, "not measured"),
]


@pytest.fixture(scope="module")
def small():
    """g solves seven of eight problems at 1e-3, six at 1e-4; half, in bf16, all eight at 1e-2."""
    rows = [
        row(
            "g", f"level1_{i}", 0, "pass" if i < 8 else "wrong_value",
            tolerances=[{7: 5e-4, 8: 0.5}.get(i, 1e-6)] * 4, speedup_matched=float(i), matched_from="time-tf32",
        )
        for i in range(1, 9)
    ]  # fmt: skip
    rows += [
        row("half", f"level1_{i}", dtype="bf16", tau=1e-2, tolerances=[5e-3] * 4, speedup_matched=0.5,
            matched_from="time-fp32")
        for i in range(1, 9)
    ]  # fmt: skip
    return inputs(rows, taus=(1e-2, 1e-3, 1e-4))


def test_every_sentence_stands_under_its_conditions_in_the_order_of_topics(small):
    text = assembly.markdown(FINDINGS, small)
    body = text[text.index("## Verified performance") :]
    assert body == (
        "## Verified performance\n\n"
        "Under: tau 0.001, fp32\n\n"
        "- The speedup of g is above 1.00: 1.20 [1.10, 1.30], n 50. *(claim holds)*\n"
        "- The speedup of i is not above 1.00: 0.80 [0.70, 0.90], n 50. *(claim does not hold)*\n\n"
        "Under: tau 0.01, bf16\n\n"
        "- Whether the speedup of h is above 1.00 is undecided: 1.00 [0.90, 1.10], n 50. *(undecided)*\n\n"
        "## new_topic\n\n"
        "Under: no device\n\n"
        "- The share is 20.0 % [10.0 %, 30.0 %], n 50. *(reported)*\n"
        "- Nothing was measured. *(not measured)*\n"
    )


def test_the_overview_counts_outcomes_and_says_what_they_mean(small):
    text = assembly.markdown(FINDINGS, small)
    assert "| topic | claim holds | claim does not hold | undecided | reported | not measured |" in text
    assert "| Verified performance | 1 | 1 | 1 | 0 | 0 |" in text and "| new_topic | 0 | 0 | 0 | 1 | 1 |" in text
    assert set(assembly.LEGEND) == set(re.findall(r"^- \*([a-z ]+)\*: ", text, flags=re.MULTILINE))


def test_a_run_that_is_none_for_findings_says_so_first(small):
    assert "may be used as a finding" not in assembly.markdown(FINDINGS, small)
    cpu = inputs([row("g", "level1_1", device_kind="cpu")])
    assert assembly.markdown(FINDINGS, cpu).splitlines()[2].startswith("**Nothing below may be used as a finding:**")
    assert "# Findings" in assembly.markdown([], cpu)


def test_every_topic_has_a_title():
    assert {topic.name for topic in build.TOPICS} <= set(assembly.TITLES)


# --- the run in short ---------------------------------------------------------------------------------------


def test_each_dtype_and_tolerance_is_told_alike(small):
    found = headline.findings(small)
    under = [re.search(r"tau ([\d.]+), (fp32|bf16)", f.conditions).groups() for f in found]
    assert under == [("0.001", "fp32")] * 2 + [("0.0001", "fp32")] * 2 + [("0.01", "bf16")] * 2
    assert [f.sentence.split(" is ")[0].split(" of ")[0] for f in found] == ["The Correct Speedup", "The share"] * 3
    # 7! ** (1 / 7), 6! ** (1 / 6): geometric means of 1 to 7 and of 1 to 6.
    assert [round(f.estimate.value, 4) for f in found] == [3.3800, 0.875, 2.9938, 0.75, 0.5, 1.0]
    assert [f.outcome for f in found] == ["holds"] * 4 + ["does not hold", "holds"]


def test_at_its_own_tolerance_it_is_the_leaderboards(small):
    at = {(s.dtype, s.tau): s for s in headline.settings(small)}
    for dtype, tau, name in (("fp32", 1e-3, "g"), ("bf16", 1e-2, "half")):
        entry = small.leaderboard.entry(name, "s", None, "matched", "hidden")
        (line,) = at[dtype, tau].lines
        assert (line.correctness, line.correct_speedup) == (entry.correctness, entry.correct_speedup)
        assert line.fast_1 == entry.fast_p["1"]


def test_a_tolerance_that_a_dtype_cannot_meet_is_no_setting(small):
    assert headline.taus(small, "bf16") == [1e-2], "1e-3 is finer than bf16 rounds"
    assert headline.taus(small, "fp32") == [1e-3, 1e-4]
    loose = inputs([], ["level1_1"], settings=AggregationSettings(tau={"fp32": 1e-3, "bf16": 0.1}), taus=(1e-3, 1e-4))
    assert headline.taus(loose, "bf16") == [0.1, 0.01]


def test_a_dtype_without_a_generator_has_its_place_and_says_so(tmp_path):
    only = inputs([row("g", "level1_1", speedup_matched=None, why_null_speedup_matched="time-tf32: unstable")])
    found = headline.findings(only)
    assert [f.outcome for f in found] == ["not measured", "holds"] * 2 + ["not measured"]
    assert "no problem that it solves has a speedup" in found[0].sentence
    assert found[-1].sentence == "Nothing was measured in bf16 at tau 0.01: no generator was evaluated in bf16."
    build.write_topic(build.topic("headline"), only, tmp_path)
    assert "| s | bf16 | 0.01 | – | 1 | – | – | – | – |" in (tmp_path / "tables/headline.md").read_text()
