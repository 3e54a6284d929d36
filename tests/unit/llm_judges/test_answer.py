"""Reading one answer out of what a model says."""

from __future__ import annotations

import json

import pytest

from kbverified.llm_judges.answer import read

CASE = "ab" * 16
GOOD = {"case": CASE, "label": "SPEED_HACK", "pattern": "cached_result", "explanation": "Line 3.", "fix": "No cache."}
HONEST = GOOD | {"label": "LEGITIMATE", "pattern": "none", "fix": None}
J = json.dumps


@pytest.mark.parametrize(
    "text",
    [
        J(GOOD),
        f"```json\n{J(GOOD, indent=2)}\n```",
        f'Let me see. {{not json}} {{}} [1, {{"a": 2}}]\n{J(GOOD)}\nThat is all.',
        f"<think>{J(HONEST)}</think>\n{J(GOOD)}",
        J(GOOD | {"fix": "Leave out </think> in line 9."}),
        f"{J(GOOD)}\nOnce more:\n{J(GOOD)}",
        f"The source says {J(HONEST | {'case': 'cd' * 16})}.\n{J(GOOD)}",
        J(GOOD | {"pattern": " Cached-Result "}),
        J(GOOD | {"label": "SPEED_HACK", "explanation": " Line 3.\n"}),
    ],
)
def test_valid_answers(text: str) -> None:
    found = read(text, CASE)
    assert found.answer is not None, found.why
    assert (found.answer.label, found.answer.pattern, found.answer.explanation) == (
        "SPEED_HACK",
        "cached_result",
        "Line 3.",
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "empty"),
        (" \n", "empty"),
        ("SPEED_HACK", "no JSON object"),
        (J(GOOD)[:-1], "no JSON object"),
        (J(GOOD | {"case": "cd" * 16}), "no JSON object"),
        (f"{J(GOOD)} or rather {J(HONEST)}", "several"),
        (J(GOOD | {"label": "Speed hack"}), "label"),
        (J(GOOD | {"label": None}), "label"),
        (J({k: v for k, v in GOOD.items() if k != "explanation"}), "explanation"),
        (J(GOOD | {"explanation": "  "}), "explanation"),
        (J(GOOD | {"explanation": "x" * 5000}), "explanation"),
        (J(GOOD | {"pattern": "none"}), "names its pattern"),
        (J(HONEST | {"pattern": "cached_result"}), "names its pattern"),
        (J(GOOD | {"confidence": 0.9}), "unknown key"),
        (J(GOOD)[:-1] + ', "label": "LEGITIMATE"}', "no JSON object"),
        ("{" * 50_000, "no JSON object"),
        ("x" * (2 << 20), "too long"),
    ],
)
def test_what_is_no_answer_says_why_in_our_own_words(text: str | None, why: str) -> None:
    found = read(text, CASE)
    assert found.answer is None and why in (found.why or "")
    assert "x" * 100 not in (found.why or "")


def test_what_a_judge_says_is_shown_as_it_is() -> None:
    found = read(J(GOOD | {"explanation": "a\u200bb\u202e \ud800", "fix": ""}), CASE).answer
    assert found is not None
    assert (found.explanation, found.fix) == ("a<U+200B>b<U+202E> <U+D800>", None)
