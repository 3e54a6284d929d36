"""LLM judges in the leaderboard and in the paper, on a table small enough to be counted by hand."""

from __future__ import annotations

import math

import pytest
from hand_made import cells, inputs, won

from kbverified.leaderboard.files import csv_text
from kbverified.leaderboard.markdown import markdown_text
from kbverified.llm_judges.records import Labelled, Labels, PersonsLabel, Vote
from kbverified.paper import build
from kbverified.paper.topics import llm_judges

SHA = "a" * 64
HACKS = ("SPEED_HACK", "MEMORY_HACK", "SPEED_AND_MEMORY_HACK")


def labelled(tail, label, *said, why="faster", person=False, sha=SHA):
    votes = [
        Vote(judge=j, role="panel" if j != "c" else "substitute", label=v, failure=None if v else "invalid_answer",
             pattern={"LEGITIMATE": "none"}.get(v, "cached_result"), explanation="x")
        for j, v in zip("abc", said)
    ]  # fmt: skip
    told = PersonsLabel(candidate=tail, candidate_sha256=sha, label=label) if person else None
    pattern = next((vote.pattern for vote in votes if vote.label == label), None)
    basis = "person" if person else "agreed"
    named = {"candidate": tail, "candidate_sha256": sha, "why": why, "votes": tuple(votes)}
    return Labelled(label=label, basis=basis, person=told, pattern=pattern, **named)


L, S, M, U = "LEGITIMATE", "SPEED_HACK", "MEMORY_HACK", "UNCERTAIN"
# Six problems; on the first two, g's fastest sample is a hack, and on the second one it has no other.
FOUND = (
    labelled("g/s/level1_1/0", S, S, S),
    labelled("g/s/level1_1/1", L, L, L),
    labelled("g/s/level1_2/0", M, L, M, L, person=True),
    labelled("g/s/level1_3/0", U, L, None, U),
    labelled("g/s/level1_4/0", L, L, S, L),
    labelled("g/s/level1_5/0", S, S, S, why="sample"),
    labelled("g/s/level1_6/0", S, S, S, sha="b" * 64),  # of a source that is no longer there
    labelled("h/s/level1_1/0", L, L, L),
)
SPEEDS = {("level1_1", 0): 8.0, ("level1_1", 1): 2.0, ("level1_2", 0): 4.0, ("level1_3", 0): 2.0, ("level1_4", 0): 2.0}
SPEEDS |= {("level1_5", 0): 0.5, ("level1_6", 0): 1.0}
LABELS = Labels(judges={"a": "model-a", "b": "model-b", "c": "model-c"}, n_verified=8, exclude=HACKS, candidates=FOUND)


@pytest.fixture(scope="module")
def small():
    rows = [won("g", problem, n, speed, candidate_sha256=SHA) for (problem, n), speed in SPEEDS.items()]
    return inputs([*rows, won("h", "level1_1", 0, 3.0, candidate_sha256=SHA)], labels=LABELS)


@pytest.fixture(scope="module")
def tables(small):
    return {table.name: table for table in llm_judges.tables(small)}


def test_the_leaderboard_has_what_is_left_beside_what_was_measured(small):
    entry = small.leaderboard.entry("g", "s", None, "matched", "hidden")
    audited = entry.audited
    assert (audited.n_judged, audited.n_excluded, audited.n_excluded_by_person) == (6, 3, 1)
    # Measured 8, 4, 2, 2, 0.5, 1; without the hacks 2, -, 2, 2, -, 1.
    assert (entry.n_solved, audited.n_solved) == (6, 4)
    assert entry.correct_speedup.value == pytest.approx((8 * 4 * 2 * 2 * 0.5 * 1) ** (1 / 6))
    assert audited.correct_speedup.value == pytest.approx(8 ** (1 / 4))
    assert (entry.correctness.value, audited.correctness.value) == (1.0, pytest.approx(4 / 6))
    audit = small.leaderboard.audit
    assert (audit.n_judged, audit.n_excluded, audit.n_verified) == (7, 3, 8)
    assert audit.labels == {L: 3, S: 2, M: 1, U: 1} and audit.bases == {"agreed": 6, "person": 1}


def test_the_filter_is_stated_wherever_it_is_shown(small):
    text = markdown_text(small.leaderboard)
    assert "audited Correct Speedup (n) matched+hidden" in text and "| 3 of 6 (1 by a person) |" in text
    assert "without the verified samples whose label is SPEED_HACK or MEMORY_HACK or SPEED_AND_MEMORY_HACK" in text
    assert "3 of 7 judged, of 8 verified. A filter by opinion" in text
    header, first = (line.split(",") for line in csv_text(small.leaderboard).splitlines()[:2])
    assert dict(zip(header, first))["n_excluded"] == "3" and "correct_speedup_audited_low" in header


def test_what_only_a_person_labelled_is_among_the_judged():
    """And a label of what was not verified leaves nothing out."""
    rows = [won("g", "level1_1", n, 2.0, candidate_sha256=SHA) for n in range(3)]
    rows.append(won("g", "level1_2", 0, 2.0, candidate_sha256=SHA, verdict="wrong_value"))
    said = (
        labelled("g/s/level1_1/0", S, why=None, person=True),
        labelled("g/s/level1_2/0", S, why=None, person=True),
    )
    made = Labels(judges={}, n_verified=3, exclude=HACKS, candidates=said)
    audit = inputs(rows, labels=made).leaderboard.audit
    assert (audit.n_judged, audit.n_excluded, audit.n_verified, audit.bases) == (1, 1, 3, {"person": 1})


def test_without_labels_nothing_is_filtered_or_said(small):
    plain = inputs([won("g", "level1_1", 0, 3.0, candidate_sha256=SHA)])
    assert plain.leaderboard.audit is None and all(e.audited is None for e in plain.leaderboard.entries)
    text = markdown_text(plain.leaderboard) + csv_text(plain.leaderboard)
    assert "audited" not in text.lower() and "hacks left out" not in text
    tables = llm_judges.tables(plain)
    assert all(table.rows == () and "no LLM judge is configured" in table.note for table in tables)
    (finding,) = llm_judges.findings(plain)
    assert finding.outcome == "not measured" and "no LLM judge is configured" in finding.sentence


def test_nothing_that_is_measured_depends_on_a_label(small):
    rows = [won("g", problem, n, speed, candidate_sha256=SHA) for (problem, n), speed in SPEEDS.items()]
    plain = inputs([*rows, won("h", "level1_1", 0, 3.0, candidate_sha256=SHA)])
    with_labels = [entry.model_copy(update={"audited": None}) for entry in small.leaderboard.entries]
    assert with_labels == list(plain.leaderboard.entries)


def test_what_was_judged(tables):
    g, h = (cells(tables["llm_judges"], generator=name) for name in "gh")
    assert (g["n_faster"], g["n_legitimate"], g["n_speed_hack"], g["n_memory_hack"], g["n_uncertain"]) == (
        5,
        2,
        1,
        1,
        1,
    )
    assert g["hacks"].value == pytest.approx(2 / 5) and (g["n_sample"], g["sample_hacks"].value) == (1, 1.0)
    assert (h["n_faster"], h["hacks"].value, h["sample_hacks"].value) == (1, 0.0, None)
    every = cells(tables["llm_judges"], generator="all generators")
    assert (every["n_faster"], every["hacks"].value) == (6, pytest.approx(2 / 6))


def test_judges_one_by_one(tables):
    b, c = (cells(tables["llm_judges_judges"], judge=name) for name in "bc")
    assert (b["n_asked"], b["n_substitute"], b["n_speed_hack"], b["n_memory_hack"], b["n_invalid_answer"]) == (
        7,
        0,
        3,
        1,
        1,
    )
    assert (c["n_asked"], c["n_substitute"], c["n_legitimate"], c["n_uncertain"]) == (3, 3, 2, 1)


def test_agreement(tables):
    row = cells(tables["llm_judges_agreement"], first="a", second="b")
    # SS LL LM LS SS LL: four of six agree; a says L 4, S 2; b says L 2, S 3, M 1.
    expected = (4 / 6 - (4 * 2 + 2 * 3) / 36) / (1 - (4 * 2 + 2 * 3) / 36)
    assert (row["n"], row["n_without"]) == (6, 1) and row["kappa"].value == pytest.approx(expected)
    assert row["agreed"].value == pytest.approx(4 / 6)
    assert len(tables["llm_judges_agreement"].rows) == 1


def test_patterns(tables):
    rows = tables["llm_judges_patterns"].rows
    assert rows == (("cached_result", S, 2, 2, 1), ("cached_result", M, 1, 1, 1))


def test_what_is_left_of_the_headline(tables, small):
    row = cells(tables["llm_judges_audited"], generator="g", level="all")
    assert row["ratio"].value == pytest.approx(8 ** (1 / 4) / math.exp(math.log(64 * 2 * 0.5) / 6), rel=1e-6)
    same = cells(tables["llm_judges_audited"], generator="h", level="all")
    assert same["ratio"].value == 1.0 and "nothing differs" in same["ratio"].why_null
    findings = llm_judges.findings(small)
    assert any(
        "share of verified candidates of g above 1x that are called a hack is 40.0 %" in f.sentence for f in findings
    )
    assert {f.topic for f in findings} == {"llm_judges"}


def test_the_topic_writes_what_it_says(small, tmp_path):
    paths = build.write_topic(build.topic("llm_judges"), small, tmp_path)
    assert all(path.is_file() for path in paths) and len(paths) == 16
