"""Asking a judge over HTTP: what is asked again, what is paid for once, what becomes a failure and never a label."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from obedient_server import Endpoint, obedient, serving
from test_injection import HACK, HONEST, JUDGE, ask

from kbverified import cli
from kbverified.endpoint_settings import EndpointFault
from kbverified.llm_judges.records import Chosen, ChosenCandidate, Judgement
from kbverified.records.files import write


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    with serving() as running:
        for name, value in running.environment().items():
            monkeypatch.setenv(name, value)
        yield running


def responses(root: Path) -> list[Path]:
    return sorted((root / "judgements/j/responses").glob("*.json"))


def test_an_answer_is_paid_for_once(tmp_path: Path, server: Endpoint) -> None:
    first = ask(tmp_path, server, HONEST)
    assert (first.label, first.pattern, first.fix, len(server.prompts)) == ("LEGITIMATE", "none", None, 1)
    server.status = 500
    assert ask(tmp_path, server, HONEST) == first
    assert len(server.prompts) == 1
    (stored,) = responses(tmp_path)
    assert not stored.stat().st_mode & stat.S_IWUSR and first.attempts[0].response_path.endswith(stored.name)
    assert "no-secret" not in stored.read_text()
    # Other facts, another template or another source are another question.
    server.status = 200
    assert ask(tmp_path, server, HACK).label == "SPEED_HACK"
    assert len(server.prompts) == 2


def test_what_is_sent(tmp_path: Path, server: Endpoint) -> None:
    ask(tmp_path, server, HONEST)
    (body,) = server.requests
    text = body["messages"][1]["content"]
    assert [m["role"] for m in body["messages"]] == ["system", "user"] and body["model"] == "judge-model"
    assert "- speedup: 2\n" in text and "3|         return kernel(x)" in text and "4|         return x" in text


def test_an_answer_that_is_none_is_asked_for_again(tmp_path: Path, server: Endpoint) -> None:
    said = iter(['{"label": "LEGITIMATE"}', "I think it is fine."])
    server.model = lambda messages: next(said, None) or obedient(messages)
    made = ask(tmp_path, server, HACK)
    assert (made.label, made.failure, len(made.attempts)) == ("SPEED_HACK", None, 3)
    # The answers that were none are not sent back: they may quote the candidate outside of its block.
    assert "previous answer was not valid" in server.prompts[1][1]["content"]
    assert all("I think" not in m["content"] and len(p) == 2 for p in server.prompts for m in p)
    assert ask(tmp_path, server, HACK) == made and len(server.prompts) == 3


@pytest.mark.parametrize(
    ("content", "failure"),
    [
        ("prose", "invalid_answer"),
        ('{"case": "CASE", "label": "FINE", "pattern": "none", "explanation": "x", "fix": null}', "invalid_answer"),
        ("", "no_answer"),
        (None, "no_answer"),
    ],
)
def test_failures_are_bounded_and_no_label(content: str | None, failure: str, tmp_path: Path, server: Endpoint) -> None:
    def model(messages: list[dict[str, str]]) -> str | None:
        number = json.loads(obedient(messages))["case"]
        return content.replace("CASE", number) if content else content

    server.model = model
    made = ask(tmp_path, server, HONEST)
    assert (made.label, made.failure, len(server.prompts)) == (None, failure, 3)
    assert ask(tmp_path, server, HONEST) == made and len(server.prompts) == 3
    # An UNCERTAIN that was chosen is a label.
    server.model = lambda messages: obedient(messages).replace("LEGITIMATE", "UNCERTAIN")
    chosen = ask(tmp_path, server, HONEST + "# another\n")
    assert (chosen.label, chosen.failure) == ("UNCERTAIN", None)


def test_a_model_that_is_served_as_the_candidates_own_is_no_judge(tmp_path: Path, server: Endpoint) -> None:
    """The judge has another name than the generator's model; the endpoint says that it is the same one."""
    server.served = "Vendor/Another-2026-01-31"
    made = ask(tmp_path, server, HONEST)
    assert (made.label, made.failure) == (None, "own_model") and "Another-2026-01-31" in (made.failure_detail or "")
    assert ask(tmp_path, server, HONEST, own_models=True).label == "LEGITIMATE"
    assert len(server.prompts) == 1


def test_a_candidate_that_is_too_long_is_shown_to_nobody(tmp_path: Path, server: Endpoint) -> None:
    made = ask(tmp_path, server, f"x = '{'a' * 200_000}'\n")
    assert (made.failure, made.case, server.prompts) == ("too_long", None, [])


def test_an_endpoint_that_is_down_leaves_nothing(tmp_path: Path, server: Endpoint) -> None:
    server.status = 503
    with pytest.raises(EndpointFault, match="LLM judge j on gen/suite/level1_1/0"):
        ask(tmp_path, server, HONEST)
    assert responses(tmp_path) == []


def test_a_source_that_was_not_measured_is_not_judged(tmp_path: Path, server: Endpoint) -> None:
    ask(tmp_path, server, HONEST)
    chosen = ChosenCandidate(
        candidate="gen/suite/level1_1/0", candidate_sha256="0" * 64, problem_sha256=None, why="faster", panel=("j",),
        substitutes=(), kept_out={"k": "its own"}, facts={}, model_names=(),
    )  # fmt: skip
    write(tmp_path / "chosen.json", Chosen(judges=("j", "k"), n_verified=1, candidates=(chosen,)))
    for judge, tail, code in (("j", chosen.candidate, 2), ("k", chosen.candidate, 2), ("j", "gen/suite/level1_1/1", 2)):
        spec = JUDGE.model_copy(update={"name": judge}).model_dump_json()
        words = ["llm-judge", "--judge", spec, "--candidate", tail, "--chosen", str(tmp_path / "chosen.json")]
        words += ["--attempts", "1", "--max-source-characters", "10000", "--root", str(tmp_path)]
        assert cli.main([*words, "--out", str(tmp_path / "out.json")]) == code
    assert not (tmp_path / "out.json").exists()


def test_a_judgement_has_a_label_or_a_failure(tmp_path: Path, server: Endpoint) -> None:
    made = ask(tmp_path, server, HONEST)
    for changes in ({"failure": "no_answer"}, {"label": None}, {"explanation": None}):
        with pytest.raises(ValueError, match=r"a judgement has|a label has"):
            Judgement.model_validate(made.model_dump() | changes)
