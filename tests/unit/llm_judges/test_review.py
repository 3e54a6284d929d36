"""The queue, and a person's file: nothing of his is ever lost, and nothing that a model wrote runs in a spreadsheet."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from test_decide import L, M, S, U

from kbverified import cli
from kbverified.llm_judges import review
from kbverified.llm_judges.records import Labelled, Labels, Vote

SHA = "a" * 64


def labelled(tail: str, label: str, basis: str, *votes: str | None, why: str = "faster", words: str = "x") -> Labelled:
    made = [
        Vote(
            judge=name, role="panel", label=v, failure=None if v else "no_answer", pattern="p", explanation=v and words
        )
        for name, v in zip("abc", votes)
    ]
    return Labelled(candidate=tail, candidate_sha256=SHA, why=why, votes=tuple(made), label=label, basis=basis)


def labels(*found: Labelled) -> Labels:
    return Labels(judges={"a": "A", "b": "B"}, n_verified=9, exclude=(S, M), candidates=found)


def test_what_a_person_should_look_at() -> None:
    every = labels(
        labelled("g/s/level1_1/0", L, "agreed", L, L),
        labelled("g/s/level1_1/1", S, "agreed", S, S),
        labelled("g/s/level1_1/2", S, "person", L, S),
        labelled("g/s/level1_1/3", U, "disagreed", L, S, M),
        labelled("g/s/level1_1/4", L, "majority", L, S, L),
        labelled("g/s/level1_1/5", U, "unanswered", L, None, why="sample"),
        labelled("g/s/level1_1/6", U, "agreed", U, U),
    )
    assert [one.candidate[-1] for one in review.queue(every)] == ["3", "4", "1", "6", "5"]
    rows = list(csv.DictReader(review.queue_text(every).splitlines()))
    assert rows[0]["said"] == "a: LEGITIMATE; b: SPEED_HACK; c: MEMORY_HACK" and rows[0]["label"] == ""
    assert rows[4]["said"] == "a: LEGITIMATE; b: no label (no_answer)"


@pytest.mark.parametrize("words", ['=HYPERLINK("http://x","y")', "+1+1", "-2", "@SUM(A1)", "\t=1", "\r\n=1\n"])
def test_no_cell_is_a_formula(words: str) -> None:
    one = labelled("g/s/level1_1/1", S, "agreed", S, S, words=words)
    (row,) = csv.DictReader(review.queue_text(labels(one)).splitlines())
    assert all(cell[:1] not in ("=", "+", "-", "@", "\t", "\r") for cell in row.values())
    assert review._cell(words)[0] == "'"


def test_a_persons_file_is_appended_to_and_never_rewritten(tmp_path: Path) -> None:
    queue, mine = tmp_path / "queue.csv", tmp_path / "judgements/review.csv"
    first, second = (labelled(f"g/s/level1_1/{n}", S, "agreed", S, S) for n in (1, 2))
    queue.write_text(review.queue_text(labels(first)))
    assert review.extend(mine, queue) == 1
    # Edited: a label, a remark with a comma, a row of his own, no newline at the end.
    text = mine.read_text().replace(f"{SHA},,,", f'{SHA},LEGITIMATE,ann,"seen, fine"')
    mine.write_text(f"{text}g/s/level1_9/0,{'b' * 64},speed hack,,,,,")
    before = mine.read_bytes()
    assert review.extend(mine, queue) == 0 and mine.read_bytes() == before
    queue.write_text(review.queue_text(labels(first, second)))
    assert review.extend(mine, queue) == 1
    assert mine.read_bytes().startswith(before) and mine.read_text().count("\n") == 4
    found = {one.candidate: one for one in review.read_review(mine)}
    assert {tail: one.label for tail, one in found.items()} == {"g/s/level1_1/1": L, "g/s/level1_9/0": S}
    assert (found["g/s/level1_1/1"].reviewer, found["g/s/level1_1/1"].note) == ("ann", "seen, fine")
    # The source was edited: the new one is a row of its own, the old label stays where it is.
    queue.write_text(review.queue_text(labels(first)).replace(SHA, "c" * 64))
    assert review.extend(mine, queue) == 1 and review.extend(mine, queue) == 0


@pytest.mark.parametrize(
    "text",
    [
        f"\ufeffcandidate;label;candidate_sha256\r\ng/s/level1_1/1;Legitimate;{SHA.upper()}\r\n",
        f"note\tcandidate_sha256\tlabel\tcandidate\nx\t{SHA}\tLEGITIMATE\tg/s/level1_1/1\n\n",
        f"candidate, candidate_sha256 ,label\ng/s/level1_1/1,{SHA},LEGITIMATE\ng/s/level1_1/2,,\n",
    ],
)
def test_a_review_file_as_spreadsheets_write_it(text: str, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_bytes(text.encode())
    (one,) = review.read_review(tmp_path / "r.csv")
    assert (one.candidate, one.candidate_sha256, one.label) == ("g/s/level1_1/1", SHA, L)


HEAD = "candidate,candidate_sha256,label\n"


def test_a_candidate_that_was_edited_may_have_a_label_for_each_source(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(f"{HEAD}g/s/level1_1/1,{SHA},LEGITIMATE\ng/s/level1_1/1,{'b' * 64},SPEED_HACK\n")
    found = {one.candidate_sha256: one.label for one in review.read_review(tmp_path / "r.csv")}
    assert found == {SHA: "LEGITIMATE", "b" * 64: "SPEED_HACK"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("candidate,label\nx,y\n", r"line 1: no column candidate_sha256"),
        (f"{HEAD}g/s/level1_1/1,{SHA},FINE\n", r"line 2: column label: 'FINE' is none of LEGITIMATE"),
        (f"{HEAD}g/level1_1/1,{SHA},LEGITIMATE\n", r"line 2: column candidate: 'g/level1_1/1' is not"),
        (f"{HEAD}g/s/level1_1/1,123,LEGITIMATE\n", r"line 2: column candidate_sha256: '123' is no sha256"),
        (f"{HEAD}g/s/level1_1/1,{SHA},LEGITIMATE\ng/s/level1_1/1,{SHA},SPEED_HACK\n", r"line 3: .* another label"),
        (f"{HEAD}g/s/level1_1/1,{SHA},\"LEGITIMATE {'x' * 200_000}\n", r"not CSV"),
        (f'{HEAD[:-1]},note\ng/s/level1_1/1,{SHA},LEGITIMATE,"half\ng/s/level1_1/2,{SHA},LEGITIMATE,b\n', r"not CSV"),
        ("\xff\xfe", r"not UTF-8"),
    ],
)  # fmt: skip
def test_a_review_file_that_cannot_be_used_says_where(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(review.ReviewError, match=message):
        review.read_review(tmp_path / "r.csv")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["llm-review", "--queue", str(tmp_path / "queue.csv"), "--review", str(tmp_path / "r.csv")]
    assert cli.main(words) == 2 and not (tmp_path / "r.csv").exists()
    assert "Run snakemake llm_judges first" in capsys.readouterr().err
    (tmp_path / "queue.csv").write_text(review.queue_text(labels(labelled("g/s/level1_1/1", S, "agreed", S, S))))
    assert cli.main(words) == 0 and "1 candidates appended, 0 have a label" in capsys.readouterr().out
    (tmp_path / "r.csv").write_text("a;b\n")
    assert cli.main(words) == 2 and (tmp_path / "r.csv").read_text() == "a;b\n"


def test_no_file_is_no_label(tmp_path: Path) -> None:
    assert review.read_review(tmp_path / "r.csv") == []
    (tmp_path / "r.csv").write_text("")
    assert review.read_review(tmp_path / "r.csv") == []
