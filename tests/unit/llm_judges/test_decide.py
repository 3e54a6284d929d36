"""Who is asked about what, and which label it comes to."""

from __future__ import annotations

from typing import Any

import pytest
from hand_made import row

from kbverified.llm_judges import decide
from kbverified.llm_judges.choose import choose
from kbverified.llm_judges.records import Judgement, PersonsLabel
from kbverified.llm_judges.settings import LlmJudge, LlmJudges

FAST = {
    "speedup_matched": 1.5,
    "usable": True,
    "degenerate": False,
    "candidate_sha256": "a" * 64,
    "problem_sha256": "p",
}


def judge(name: str, model: str | None = None, **more: Any) -> LlmJudge:
    return LlmJudge(name=name, model=model or f"model-{name}", base_url_env="U", api_key_env="K", **more)


THREE = LlmJudges(judges=(judge("a"), judge("b"), judge("c")), others_share=0.0)


def said(name: str, label: str | None, **changes: Any) -> Judgement:
    values: dict[str, Any] = {
        "judge": name, "model": f"model-{name}", "settings": {}, "candidate": "gen/s/level1_1/0",
        "candidate_sha256": "a" * 64, "reference_sha256": "r", "template_sha256": "t", "case": "c", "attempts": (),
        "package_version": "0", "label": label, "pattern": None if label is None else "x",
        "explanation": None if label is None else f"By {name}.", "failure": None if label else "no_answer",
    }  # fmt: skip
    return Judgement(**(values | changes))


# --- who is asked -------------------------------------------------------------------------------------------


def test_verified_candidates_that_are_faster_are_judged_and_those_that_cannot_be() -> None:
    rows = [
        row("gen", "level1_1", 0, **FAST),
        row("gen", "level1_1", 1, **FAST | {"speedup_matched": 1.0}),
        row("gen", "level1_1", 2, "wrong_value", **FAST),
        row("gen", "level1_1", 3, **FAST | {"speedup_matched": None, "implausible_in": "time-tf32"}),
        row("gen", "level1_1", 4, **FAST | {"speedup_matched": None}),
        row("gen", "level2_23", 0, **FAST | {"degenerate": True}),
        row("gen", "level1_2", 0, **FAST | {"usable": None}),
    ]
    chosen = choose(rows, THREE, {"gen": None})
    assert [(one.candidate, one.why) for one in chosen.candidates] == [
        ("gen/s/level1_1/0", "faster"),
        ("gen/s/level1_1/3", "implausible"),
    ]
    assert chosen.n_verified == 4
    assert {(one.panel, one.substitutes) for one in chosen.candidates} == {(("a", "b"), ("c",))}


def test_the_sample_of_the_others_is_drawn_by_the_seed_and_stays_when_more_come() -> None:
    slow = FAST | {"speedup_matched": 0.5}
    rows = [row("gen", f"level1_{n}", sample, **slow) for n in range(1, 101) for sample in range(5)]

    def drawn(some: list[Any], seed: int = 0, share: float = 0.2) -> set[str]:
        settings = THREE.model_copy(update={"others_share": share, "seed": seed})
        return {one.candidate for one in choose(some, settings, {"gen": None}).candidates}

    every = drawn(rows)
    assert 70 < len(every) < 130  # 100 expected, sd 9
    assert drawn(rows[:250]) == {tail for tail in every if int(tail.split("/")[2].split("_")[1]) <= 50}
    assert drawn(rows, seed=1) != every and drawn(rows, share=1.0) > every and drawn(rows, share=0.0) == set()
    assert drawn(rows, share=0.1) < every


def test_nobody_judges_its_own_model() -> None:
    judges = (judge("a", "openai/GPT-5.5"), judge("b", family="claude"), judge("c"), judge("d"))
    rows = [
        row("run1", "level1_1", **FAST),
        row("run2", "level1_1", origin="api", source="gpt-5.5-2026-01-31", **FAST),
        row("run3", "level1_1", origin="import", source="/somewhere/gpt-5.5", **FAST),
        row("claude-opus-4.5", "level1_1", **FAST),
        row("run5", "level1_1", **FAST),
    ]
    models = {"run1": "gpt-5.5", "run2": "alias", "run3": None, "claude-opus-4.5": None, "run5": None}
    settings = LlmJudges(judges=judges, families={"run5": "Claude"})
    found = {one.candidate.split("/")[0]: one for one in choose(rows, settings, models).candidates}
    assert {name: one.panel for name, one in found.items()} == {
        "run1": ("b", "c"), "run2": ("b", "c"), "run3": ("a", "b"), "claude-opus-4.5": ("a", "c"), "run5": ("a", "c"),
    }  # fmt: skip
    assert "openai/GPT-5.5 is gpt-5.5" in found["run1"].kept_out["a"]
    told = choose(rows, settings.model_copy(update={"own_models": True}), models)
    assert {one.panel for one in told.candidates} == {("a", "b")}
    few = choose(rows, settings.model_copy(update={"judges": judges[:2]}), models)
    assert len(few.too_few_judges) == 4 and few.candidates[0].panel == ("b",)
    with pytest.raises(ValueError, match="no generator 'run9'"):
        choose(rows, settings.model_copy(update={"families": {"run9": "x"}}), models)


def test_judges_are_told_numbers_and_our_own_words_only() -> None:
    odd = {"verdict_detail": "IGNORE", "numerics_remark": "IGNORE", "static_labels": "IGNORE", "source": "IGNORE"}
    columns = FAST | {"memory_ratio_allocator_peak": 0.5} | odd
    first, again = (
        choose([row("gen", "level1_1", **columns | {"speedup_matched": speedup})], THREE, {})
        for speedup in (1.5249, 1.4751)
    )
    told = first.candidates[0].facts
    assert "IGNORE" not in str(told) and "1.5" in told.values() and "0.5" in told.values()
    assert told == again.candidates[0].facts, "another measurement asks another question"
    assert told["weights are those of the reference"] == "not measured"


def test_two_judges_at_least() -> None:
    with pytest.raises(ValueError, match="2 are to judge every candidate, and there are 1"):
        LlmJudges(judges=(judge("a"),))
    with pytest.raises(ValueError, match="a name of its own"):
        LlmJudges(judges=(judge("a"), judge("a")))
    with pytest.raises(ValueError, match="does not belong where outputs"):
        LlmJudges(review="results/llm-judges/review.csv")
    with pytest.raises(ValueError, match="LEGITIMATE cannot be excluded"):
        LlmJudges(exclude=("LEGITIMATE",))


# --- which label --------------------------------------------------------------------------------------------

L, S, M, U = "LEGITIMATE", "SPEED_HACK", "MEMORY_HACK", "UNCERTAIN"


@pytest.mark.parametrize(
    ("votes", "asked", "label", "basis"),
    [
        ((L, L), None, L, "agreed"),
        ((U, U), None, U, "agreed"),
        ((L, S), "c", U, "disagreed"),
        ((L, S, S), "c", S, "majority"),
        ((L, S, M), "c", U, "disagreed"),
        ((L, U, U), "c", U, "majority"),
        ((L, None), "c", U, "unanswered"),
        ((L, None, L), "c", L, "agreed"),
        ((L, None, S), "c", U, "disagreed"),
        ((None, None, L), "c", U, "unanswered"),
        ((None, None), "c", U, "unanswered"),
    ],
)
def test_labels(votes: tuple[str | None, ...], asked: str | None, label: str, basis: str) -> None:
    chosen = choose([row("gen", "level1_1", **FAST)], THREE, {})
    found = [said(name, vote) for name, vote in zip("abc", votes)]
    assert decide.substitute(chosen.candidates[0], found[:2]) == asked
    sources = {"gen/s/level1_1/0": "a" * 64}
    (one,) = decide.labels(chosen, {"gen/s/level1_1/0": found[::-1]}, [], THREE, sources).candidates
    assert (one.label, one.basis) == (label, basis)
    assert [vote.judge for vote in one.votes] == list("abc"[: len(votes)])
    # A person's word goes before all of it; one about another source does not count, and is named.
    person = PersonsLabel(candidate="gen/s/level1_1/0", candidate_sha256="a" * 64, label="MEMORY_HACK")
    (one,) = decide.labels(chosen, {"gen/s/level1_1/0": found}, [person], THREE, sources).candidates
    assert (one.label, one.basis) == (M, "person") and len(one.votes) == len(votes)
    old = person.model_copy(update={"candidate_sha256": "b" * 64})
    made = decide.labels(chosen, {"gen/s/level1_1/0": found}, [old], THREE, sources)
    assert (made.candidates[0].label, made.stale) == (label, ("gen/s/level1_1/0",))


def test_a_person_may_label_what_nobody_judged() -> None:
    chosen = choose([], THREE, {})
    person = PersonsLabel(candidate="gen/s/level1_9/0", candidate_sha256="d" * 64, label="SPEED_HACK")
    made = decide.labels(chosen, {}, [person], THREE, {"gen/s/level1_9/0": "d" * 64})
    assert [(one.candidate, one.why, one.label) for one in made.candidates] == [("gen/s/level1_9/0", None, S)]
    assert decide.labels(chosen, {}, [person], THREE, {}).candidates == ()


def test_a_judgement_of_another_source_is_an_error() -> None:
    chosen = choose([row("gen", "level1_1", **FAST)], THREE, {})
    wrong = said("a", L, candidate_sha256="b" * 64)
    with pytest.raises(ValueError, match="field candidate_sha256"):
        decide.labels(chosen, {"gen/s/level1_1/0": [wrong]}, [], THREE, {})
    with pytest.raises(ValueError, match="no judgement of"):
        decide.substitute(chosen.candidates[0], [said("c", L)])
