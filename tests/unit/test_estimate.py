"""What a run's samples will cost, told before one is asked for. Every expected number is worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from endpoint_server import EndpointServer, completion, serve

from kbverified import cli, prompts
from kbverified.generators import generate, read_generators
from kbverified.keys import CandidateKey
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
