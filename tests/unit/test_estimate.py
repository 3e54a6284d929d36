"""What a run's samples will cost, told before one is asked for. Every expected number is worked out by hand."""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from endpoint_server import Answer, EndpointServer, completion, serve

from kbverified import cli, kernel_table, prompts
from kbverified.config_files import project_settings
from kbverified.generators import generate, read_generators
from kbverified.keys import CandidateKey
from kbverified.llm_judges import case
from kbverified.llm_judges.choose import choose
from kbverified.llm_judges.judge import judge_candidate
from kbverified.tokens import message_tokens

ROW = """
- generator: gen
  origin: api
  model: some-model
  base_url: {url}
  samples: 2
  max_tokens: 1000
  requests_per_minute: 2
  budget_usd: 0.01
  usd_per_million_prompt_tokens: 1
  usd_per_million_completion_tokens: 4
- {{generator: old, origin: import}}
- {{generator: shut, origin: api, model: m, base_url: "https://host/v1", closed: true}}
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EndpointServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").write_text(
        "selection: {suites: [kb], levels: [1]}\ngenerators_tsv: config/generators.yaml\ndevice: cpu\n"
    )
    for name in ("level1_1", "level1_2", "level2_1"):
        path = tmp_path / f"problems/kb/{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("class Model: pass\n")
    with serve(completion("x = 1\n", usage=(1000, 300))) as started:
        (tmp_path / "config/generators.yaml").write_text(ROW.format(url=started.url))
        yield started


def estimated(root: Path, capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert cli.main(["estimate", "--root", str(root), "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


def estimated_prompt(root: Path, problem: Path) -> int:
    (spec, *_) = read_generators(root / "config/generators.yaml")
    return message_tokens(prompts.for_generator(spec, problem, None, root).messages)


def make(root: Path, problem: str, sample: int) -> int:
    """Ask for one sample; the estimate of its prompt."""
    (spec, *_) = read_generators(root / "config/generators.yaml")
    source = root / f"problems/kb/{problem}.py"
    generate(spec, source, CandidateKey("gen", "kb", problem, sample), root)
    return estimated_prompt(root, source)


def test_before_the_first_answer(server: EndpointServer, tmp_path: Path, capsys) -> None:
    (one,) = estimated(tmp_path, capsys)
    prompt = estimated_prompt(tmp_path, tmp_path / "problems/kb/level1_1.py")
    assert (one["generator"], one["stored"], one["placed"], one["to_ask"]) == ("gen", 0, 0, 4)
    assert one["expected"] == {"prompt_tokens": 4 * prompt, "completion_tokens": None, "usd": None}
    assert one["at_most"]["prompt_tokens"] == 4 * prompt
    assert one["at_most"]["completion_tokens"] == 4000
    assert one["at_most"]["usd"] == pytest.approx((4 * prompt + 4 * 4000) / 1e6)
    assert one["spent"] == {"prompt_tokens": 0, "completion_tokens": 0, "usd": 0}
    # 0.01 USD is ten thousand prompt tokens; each sample takes up to prompt + 4000 of them.
    assert one["fit"] == [None, int(10_000 / (prompt + 4000))]
    assert one["minutes"] == 2
    assert not (tmp_path / "generations").exists() and server.requests == []


def test_with_answers_to_tell_from(server: EndpointServer, tmp_path: Path, capsys) -> None:
    """One of four is there, one lies there placed by hand; a prompt was counted as 1000 tokens, an answer as 300."""
    prompt = make(tmp_path, "level1_1", 1)
    placed = tmp_path / "generations/gen/kb/level1_2/1.py"
    placed.parent.mkdir(parents=True)
    placed.write_text("x = 2\n")
    (one,) = estimated(tmp_path, capsys)
    assert (one["stored"], one["placed"], one["to_ask"], one["answers"]) == (1, 1, 2, 1)
    assert one["expected"]["prompt_tokens"] == 2000
    assert one["expected"]["completion_tokens"] == 600
    assert one["expected"]["usd"] == pytest.approx((2000 + 4 * 600) / 1e6)
    assert (one["at_most"]["prompt_tokens"], one["at_most"]["completion_tokens"]) == (2 * prompt, 2000)
    assert one["spent"] == {"prompt_tokens": 1000, "completion_tokens": 300, "usd": pytest.approx(2200 / 1e6)}
    # Of 10,000 there are 7,800 left; as expected 2200 each, at most prompt + 4000 each.
    assert one["fit"] == [2, int(7800 / (prompt + 4000))]
    assert cli.main(["estimate", "--root", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "1 stored, 1 placed, 2 to ask" in text
    assert "expected           2,000 prompt + 600 completion tokens, 0.00 USD (mean of 1 answers)" in text
    assert "budget_usd         0.01: enough for 2 of 2 as expected, 1 at least" in text


JUDGES = """
llm_judges:
  others_share: 0.0
  judges:
  - &one {name: first, model: m1, base_url: "URL", max_tokens: 50}
  - {<<: *one, name: second, model: m2}
  - {<<: *one, name: third, model: m3}
"""


def judged_run(server: EndpointServer, root: Path) -> dict[int, str]:
    """Three samples, of which two are verified and faster; the digests of all."""
    sys.path.insert(0, str(Path(__file__).parent / "paper"))
    row = importlib.import_module("hand_made").row
    with open(root / "config/config.yaml", "a") as file:
        file.write(JUDGES.replace("URL", server.url))
    (root / "config/generators.yaml").write_text("- {generator: gen, origin: import}\n")
    template = root / case.TEMPLATE
    template.parent.mkdir(parents=True)
    template.write_bytes((Path(__file__).parents[2] / case.TEMPLATE).read_bytes())
    problem = hashlib.sha256((root / "problems/kb/level1_1.py").read_bytes()).hexdigest()
    rows, digests = [], {}
    for number, speedup in enumerate((2.0, 3.0, 0.5)):
        key = CandidateKey("gen", "kb", "level1_1", number)
        path = key.source_path(root)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"x = {number}\n")
        digests[number] = hashlib.sha256(path.read_bytes()).hexdigest()
        rows.append(
            row(
                "gen", "level1_1", number, suite="kb", speedup_matched=speedup, candidate_sha256=digests[number],
                problem_sha256=problem, usable=True, degenerate=False,
            )
        )  # fmt: skip
    kernel_table.write_parquet(kernel_table.frame(rows), root / "results/kernels/gen.parquet")
    return digests


def test_llm_judges_are_counted_once_it_is_known_whom_they_judge(server, tmp_path: Path, capsys) -> None:
    """Two candidates, two judges each and a third where these disagree; three tries each, 50 tokens a try."""
    judged_run(server, tmp_path)
    table = tmp_path / "results/kernels/gen.parquet"
    first, second, third = estimated(tmp_path, capsys)
    assert [one["judge"] for one in (first, second, third)] == ["first", "second", "third"]
    assert first["generator"] is None
    assert [(one["stored"], one["to_ask"], one["perhaps"]) for one in (first, second, third)] == [
        (0, 2, 0), (0, 2, 0), (0, 0, 2)
    ]  # fmt: skip
    assert [one["at_most"]["completion_tokens"] for one in (first, second, third)] == [2 * 3 * 50] * 3
    prompt = first["expected"]["prompt_tokens"]
    assert first["at_most"]["prompt_tokens"] == 3 * prompt == third["at_most"]["prompt_tokens"]
    assert not (tmp_path / "judgements").exists() and server.requests == []
    table.unlink()
    assert estimated(tmp_path, capsys) == []
    assert cli.main(["estimate", "--root", str(tmp_path)]) == 0
    assert f"{table} is not there yet" in capsys.readouterr().out


def test_what_llm_judges_said_is_not_asked_again(server, tmp_path: Path, capsys) -> None:
    """First and second disagree about sample 0; the first gave no valid answer about sample 1 the first time."""
    judged_run(server, tmp_path)
    asked_before: list[str] = []

    def say(body: dict[str, Any]) -> Answer:
        number = re.search(r"[0-9a-f]{32}", body["messages"][1]["content"])[0]
        about = "0" if "x = 0" in body["messages"][1]["content"] else "1"
        asked_before.append(f"{body['model']} on {about}")
        if asked_before.count("m1 on 1") == 1 and asked_before[-1] == "m1 on 1":
            return completion("I cannot say", usage=(1000, 10))
        label = "SPEED_HACK" if body["model"] == "m2" else "LEGITIMATE"
        pattern = "cached_result" if body["model"] == "m2" else "none"
        said = {"case": number, "label": label, "pattern": pattern, "explanation": "it is", "fix": None}
        return completion(json.dumps(said), usage=(1000, 10))

    server.choose = say
    settings = project_settings(tmp_path, []).llm_judges
    rows = kernel_table.read_rows([tmp_path / "results/kernels/gen.parquet"])
    candidates = choose(rows, settings, {"gen": None}).candidates

    def judge(which: int, number: int, attempts: int = 3) -> None:
        judge_candidate(settings.judges[which], candidates[number], tmp_path, attempts=attempts, most_characters=10_000,
                        template=tmp_path / case.TEMPLATE)  # fmt: skip

    judge(0, 0)
    judge(1, 0)
    judge(0, 1, attempts=1)
    n = len(server.requests)
    first, second, third = estimated(tmp_path, capsys)
    assert [(one["stored"], one["to_ask"], one["perhaps"]) for one in (first, second, third)] == [
        (1, 1, 0), (1, 1, 0), (0, 1, 1)
    ]  # fmt: skip
    # Two tries are left to the first about sample 1; whether the third is asked about it nobody knows.
    assert [one["at_most"]["completion_tokens"] for one in (first, second, third)] == [2 * 50, 3 * 50, 2 * 3 * 50]
    assert [one["expected"]["completion_tokens"] for one in (first, second, third)] == [10, 10, None]
    assert (first["spent"]["prompt_tokens"], second["expected"]["prompt_tokens"]) == (2000, 1000)
    assert len(server.requests) == n
    (tmp_path / "generations/gen/kb/level1_1/1.py").write_text("edited = 1\n")
    first, *_ = estimated(tmp_path, capsys)
    assert (first["stored"], first["to_ask"], first["changed"]) == (1, 0, 1)


def test_files_override_and_what_cannot_be_is_told(server: EndpointServer, tmp_path: Path, capsys) -> None:
    more = tmp_path / "more.yaml"
    more.write_text("selection: {samples: [0]}\n")
    (one,) = estimated(tmp_path, capsys, "--configfile", str(more), "--generator", "gen")
    assert one["to_ask"] == 2
    assert cli.main(["estimate", "--root", str(tmp_path), "--generator", "absent"]) == 2
    assert "no generator 'absent'" in capsys.readouterr().err
    more.write_text("selection: {sample: [0]}\n")
    assert cli.main(["estimate", "--root", str(tmp_path), "--configfile", str(more)]) == 2
    assert "did you mean samples" in capsys.readouterr().err
