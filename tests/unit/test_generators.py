"""The generators table, and generation over real HTTP from a small endpoint of our own."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from endpoint_server import Answer, EndpointServer, completion, error, html, serve

from kbverified import endpoint, generators
from kbverified.cli import main
from kbverified.endpoint_settings import EndpointFault
from kbverified.extraction import classify
from kbverified.generators import GeneratorError, GeneratorSpec, discover_candidates, generate, read_generators
from kbverified.keys import CandidateKey
from kbverified.records.files import read
from kbverified.records.generation import Generation

CODE = "class ModelNew: pass\n"
SECRET = "sk-very-secret-0123456789"
HEADER = "generator\torigin\tdtype\tdevices\tmodel\tbase_url_env\tapi_key_env\ttemperature\tmax_tokens\tsamples\tnote\n"
API_ROW = "gen\tapi\tfp32\tany\tsome-model\tKBV_TEST_URL\tKBV_TEST_KEY\t0.5\t100\t2\tours\n"


def table(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "generators.tsv"
    path.write_text(text)
    return path


# --- the table ----------------------------------------------------------------------------------------------


def test_table(tmp_path: Path) -> None:
    path = table(tmp_path, f"# what is evaluated\n\n{HEADER}# api\n{API_ROW}old\timport\tbf16\nours\tbundled\n")
    api, imported, bundled = read_generators(path)
    assert (api.model, api.temperature, api.max_tokens, api.samples, api.note) == ("some-model", 0.5, 100, 2, "ours")
    assert (imported.origin, imported.dtype, imported.samples) == ("import", "bf16", None)
    assert (bundled.generator, bundled.dtype, bundled.devices) == ("ours", "fp32", "any")
    assert api.settings == {"temperature": 0.5, "max_tokens": 100}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("../evil\timport", r"row 2: column generator: .*'\.\./evil'"),
        ("\timport", "row 2: column generator: Field required"),
        ("g\tguess", "row 2: column origin: .*'guess'"),
        ("g\timport\tfp16", "row 2: column dtype: .*'fp16'"),
        (API_ROW.replace("0.5", "warm"), "row 2: column temperature: .*'warm'"),
        (API_ROW.replace("0.5", "nan"), "row 2: column temperature: .*'nan'"),
        (API_ROW.replace("0.5", "-1"), "row 2: column temperature: .*'-1'"),
        (API_ROW.replace("\t2\t", "\t0\t"), "row 2: column samples: .*'0'"),
        (API_ROW.replace("some-model", ""), "row 2: .*origin api needs model"),
        ("g\timport\tfp32\tany\tm\tURL", "row 2: .*base_url_env only go with origin api"),
        (API_ROW.strip() + "\tmore", "row 2: 12 cells under 11 columns"),
    ],
)
def test_table_errors_name_file_row_column_and_value(tmp_path: Path, row: str, words: str) -> None:
    with pytest.raises(GeneratorError, match=rf"generators\.tsv: {words}"):
        read_generators(table(tmp_path, HEADER + row + "\n"))


def test_a_key_in_the_table_is_refused_and_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(GeneratorError, match=r"column api_key_env: .*names an environment variable") as caught:
        read_generators(table(tmp_path, HEADER + API_ROW.replace("KBV_TEST_KEY", SECRET)))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no header"),
        ("# only this\n", "no header"),
        ("generator\torigin\tcolour\n", "row 1: unknown column 'colour'"),
        ("generator\torigin\torigin\n", "column origin is there twice"),
        ("generator\tdtype\n", "row 1: no column origin"),
        ("generator\torigin\na\timport\na\tbundled\n", "row 3: column generator: 'a' is there twice"),
    ],
)
def test_table_header_is_checked(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(GeneratorError, match=rf"generators\.tsv: .*{words}"):
        read_generators(table(tmp_path, text))


def test_discover(tmp_path: Path) -> None:
    for name in ("0.py", "10.py", "9.py", "9.json", "notes.txt"):
        path = tmp_path / "generations/old/kb/level1_2" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    old = GeneratorSpec(generator="old", origin="import")
    found = discover_candidates(tmp_path, old, "kb", ["level1_1", "level1_2"])
    assert found == [CandidateKey("old", "kb", "level1_2", n) for n in (0, 9, 10)]
    api = SPEC.model_copy(update={"samples": 2})
    assert [k.tail for k in discover_candidates(tmp_path, api, "kb", ["level1_2"])] == [
        "gen/kb/level1_2/0",
        "gen/kb/level1_2/1",
    ]
    (tmp_path / "generations/old/kb/level1_2/00.py").write_text("")
    with pytest.raises(GeneratorError, match=r"00\.py: a sample is named by its number"):
        discover_candidates(tmp_path, old, "kb", ["level1_2"])


# --- the endpoint -------------------------------------------------------------------------------------------

SPEC = GeneratorSpec(
    generator="gen",
    origin="api",
    model="some-model",
    base_url_env="KBV_TEST_URL",
    api_key_env="KBV_TEST_KEY",
    temperature=0.5,
    max_tokens=100,
)
KEY = CandidateKey("gen", "kb", "level1_1", 0)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[EndpointServer]:
    monkeypatch.setattr(endpoint, "BACKOFF_S", 0.01)
    monkeypatch.setenv("KBV_TEST_KEY", SECRET)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    problem = tmp_path / "problems/kb/level1_1.py"
    problem.parent.mkdir(parents=True)
    problem.write_text("class Model: pass  # the reference\n")
    with serve(completion(f"Here:\n```python\n{CODE}```", model="served-model")) as server:
        monkeypatch.setenv("KBV_TEST_URL", server.url)
        yield server


def stored(root: Path) -> list[Path]:
    """The answers in the store."""
    return sorted((root / "generations/gen/responses").glob("*.json"))


def make(root: Path, spec: GeneratorSpec = SPEC, key: CandidateKey = KEY) -> generators.Outcome:
    return generate(spec, root / "problems/kb/level1_1.py", key, root)


def candidate(root: Path, key: CandidateKey = KEY) -> tuple[bytes, Generation]:
    data, generation = key.source_path(root).read_bytes(), read(key.metadata_path(root), Generation)
    assert generation.candidate_sha256 == hashlib.sha256(data).hexdigest()
    return data, generation


def test_an_answer_becomes_a_candidate(api: EndpointServer, tmp_path: Path) -> None:
    assert make(tmp_path).did == "asked"
    data, generation = candidate(tmp_path)
    assert data == CODE.encode()
    assert (generation.origin, generation.source, generation.model) == ("api", "served-model", "some-model")
    assert (generation.extraction, generation.detail) == ("fence", None)
    assert (generation.prompt_tokens, generation.completion_tokens) == (11, 22)
    assert generation.settings == {"temperature": 0.5, "max_tokens": 100}
    (request,) = api.requests
    assert (request["path"], request["model"]) == ("/v1/chat/completions", "some-model")
    assert (request["temperature"], request["max_tokens"]) == (0.5, 100)
    assert "# the reference" in request["messages"][-1]["content"]
    assert "ModelNew" in request["messages"][-1]["content"]
    assert [headers["authorization"] for headers in api.headers] == [f"Bearer {SECRET}"]


def test_unset_settings_are_not_sent(api: EndpointServer, tmp_path: Path) -> None:
    make(tmp_path, SPEC.model_copy(update={"temperature": None, "max_tokens": None}))
    assert not {"temperature", "max_tokens"} & set(api.requests[0])


def test_the_prompt_names_device_and_dtype(api: EndpointServer, tmp_path: Path) -> None:
    for sample, (devices, dtype) in enumerate([("any", "fp32"), ("cuda", "bf16"), ("cpu", "fp32")]):
        spec = SPEC.model_copy(update={"devices": devices, "dtype": dtype})
        make(tmp_path, spec, CandidateKey("gen", "kb", "level1_1", sample))
    texts = [request["messages"][-1]["content"] for request in api.requests]
    assert ["GPU" in text for text in texts] == [True, True, False]
    assert ["bfloat16" in text for text in texts] == [False, True, False]


def test_the_key_is_stored_nowhere(api: EndpointServer, tmp_path: Path) -> None:
    make(tmp_path)
    files = [path for path in (tmp_path / "generations").rglob("*") if path.is_file()]
    assert len(stored(tmp_path)) == 1
    assert not any(SECRET in path.read_text() or "127.0.0.1" in path.read_text() for path in files)


def test_a_stored_answer_is_replayed_and_not_paid_for_twice(api: EndpointServer, tmp_path: Path) -> None:
    make(tmp_path)
    assert make(tmp_path).did == "unchanged"
    KEY.source_path(tmp_path).unlink()
    assert make(tmp_path).did == "replayed"
    KEY.metadata_path(tmp_path).unlink()
    KEY.source_path(tmp_path).unlink()
    assert make(tmp_path).did == "replayed"
    assert candidate(tmp_path)[0] == CODE.encode()
    assert len(api.requests) == 1


def test_a_replay_needs_neither_key_nor_endpoint(api: EndpointServer, tmp_path: Path, monkeypatch) -> None:
    make(tmp_path)
    KEY.source_path(tmp_path).unlink()
    monkeypatch.delenv("KBV_TEST_KEY")
    monkeypatch.delenv("KBV_TEST_URL")
    assert make(tmp_path).did == "replayed"


def test_every_sample_is_asked_for(api: EndpointServer, tmp_path: Path) -> None:
    second = CandidateKey("gen", "kb", "level1_1", 1)
    api.answers.append(completion("x = 2\n"))
    make(tmp_path)
    make(tmp_path, key=second)
    assert (candidate(tmp_path)[0], candidate(tmp_path, second)[0]) == (CODE.encode(), b"x = 2\n")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (completion(""), "the answer is empty"),
        (completion(None), "the answer is null"),
        (completion(None, refusal="I will not."), "refused: I will not."),
        (completion("I'm sorry, I can't help with that."), "no code in the answer"),
        (completion("", finish_reason="length"), "finish_reason length; the answer is empty"),
        (completion("", finish_reason="content_filter"), "finish_reason content_filter"),
    ],
)
def test_an_answer_without_code_is_a_candidate_that_fails(
    api: EndpointServer, tmp_path: Path, answer: Answer, words: str
) -> None:
    api.answers = [answer]
    assert make(tmp_path).did == "asked"
    data, generation = candidate(tmp_path)
    assert (data, generation.extraction) == (b"", "none")
    assert words in str(generation.detail)
    verdict = classify(data)
    assert verdict is not None
    assert verdict.verdict == "no_code"
    assert make(tmp_path).did == "unchanged"
    assert len(api.requests) == 1


def test_a_truncated_answer_says_so(api: EndpointServer, tmp_path: Path) -> None:
    api.answers = [completion("```python\nclass ModelNew:\n    def f(", finish_reason="length")]
    make(tmp_path)
    data, generation = candidate(tmp_path)
    assert data == b"class ModelNew:\n    def f("
    assert str(generation.detail).startswith("finish_reason length; the fence is not closed")


def test_a_lone_surrogate_loses_no_answer(api: EndpointServer, tmp_path: Path) -> None:
    api.answers = [completion(f"```python\n{CODE}# \ud800 \U0001f600\n```")]
    make(tmp_path)
    first = candidate(tmp_path)[0]
    assert first == f"{CODE}# \ufffd \U0001f600\n".encode()
    KEY.source_path(tmp_path).unlink()
    assert make(tmp_path).did == "replayed"
    assert candidate(tmp_path)[0] == first


@pytest.mark.parametrize("status", [500, 429, 408])
def test_passing_faults_are_retried_by_the_client(api: EndpointServer, tmp_path: Path, status: int) -> None:
    api.answers = [error(status, "busy"), error(status, "busy"), completion(CODE)]
    assert make(tmp_path).did == "asked"
    assert len(api.requests) == 3


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (error(500, "on fire"), "no answer after 1 retries.* on fire"),
        (error(401, f"Incorrect API key {SECRET}"), "refuses the API key"),
        (error(403, "no"), "refuses the API key"),
        (html(), r"no chat completion.*A portal.*end in /v1"),
        (Answer({"error": {"message": "overloaded"}}), "an error instead of an answer: overloaded"),
    ],
)
def test_faults_write_no_sample(api: EndpointServer, tmp_path: Path, answer: Answer, words: str) -> None:
    api.answers = [answer]
    with pytest.raises(EndpointFault, match=words) as caught:
        make(tmp_path, SPEC.model_copy(update={"retries": 1}))
    assert SECRET not in str(caught.value)
    assert "gen/kb/level1_1/0" in str(caught.value)
    assert stored(tmp_path) == [] and not KEY.source_path(tmp_path).exists()


def test_a_request_that_is_wrong_is_bad_input(api: EndpointServer, tmp_path: Path) -> None:
    api.answers = [error(404, "The model `some-model` does not exist")]
    with pytest.raises(endpoint.RequestRejected, match=r"model 'some-model'.*does not exist"):
        make(tmp_path)
    assert len(api.requests) == 1


def test_the_limit_is_renamed_for_models_that_ask_for_it(api: EndpointServer, tmp_path: Path) -> None:
    api.answers = [error(400, "'max_tokens' is not supported. Use 'max_completion_tokens' instead."), completion(CODE)]
    make(tmp_path)
    assert api.requests[1]["max_completion_tokens"] == 100
    assert "max_tokens" not in api.requests[1]
    assert candidate(tmp_path)[1].settings["max_tokens"] == 100


def edit_source(root: Path) -> Path:
    path = KEY.source_path(root)
    path.write_text(CODE + "# by hand\n")
    return path


def test_an_edited_sample_is_kept_and_told(api: EndpointServer, tmp_path: Path) -> None:
    make(tmp_path)
    path = edit_source(tmp_path)
    metadata = KEY.metadata_path(tmp_path).read_bytes()
    outcome = make(tmp_path)
    assert outcome.did == "kept"
    assert "edited since it was generated" in outcome.sentence
    assert path.read_text() == CODE + "# by hand\n"
    assert KEY.metadata_path(tmp_path).read_bytes() == metadata
    assert len(api.requests) == 1


def test_a_sample_placed_by_hand_is_kept_for_ever(api: EndpointServer, tmp_path: Path) -> None:
    KEY.source_path(tmp_path).parent.mkdir(parents=True)
    edit_source(tmp_path)
    for words in ("placed by hand", "origin is import"):
        outcome = make(tmp_path)
        assert outcome.did == "kept"
        assert words in outcome.sentence
    data, generation = candidate(tmp_path)
    assert (data, generation.origin) == ((CODE + "# by hand\n").encode(), "import")
    assert api.requests == []


def test_unreadable_metadata_keeps_the_source(api: EndpointServer, tmp_path: Path) -> None:
    make(tmp_path)
    KEY.metadata_path(tmp_path).write_text("{")
    outcome = make(tmp_path)
    assert outcome.did == "kept"
    assert "0.json" in outcome.sentence


@pytest.mark.parametrize("change", [{"model": "another"}, {"temperature": 0.9}, {"dtype": "bf16"}])
def test_only_deleting_a_sample_asks_again(api: EndpointServer, tmp_path: Path, change: dict[str, Any]) -> None:
    make(tmp_path)
    changed = SPEC.model_copy(update=change)
    outcome = make(tmp_path, changed)
    assert outcome.did == "kept"
    assert "another prompt, model or settings" in outcome.sentence
    assert len(api.requests) == 1
    KEY.source_path(tmp_path).unlink()
    assert make(tmp_path, changed).did == "asked"
    assert len(api.requests) == 2
    assert len(stored(tmp_path)) == 2


def test_a_kill_after_the_answer_costs_nothing(api: EndpointServer, tmp_path: Path, monkeypatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(generators, "commit", killed)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path)
    monkeypatch.undo()
    monkeypatch.setenv("KBV_TEST_URL", "http://127.0.0.1:9/v1")
    assert make(tmp_path).did == "replayed"
    assert len(api.requests) == 1


def test_two_at_once_pay_once(api: EndpointServer, tmp_path: Path) -> None:
    api.answers = [completion("x = 'first'\n", wait_s=0.3), completion("x = 'second'\n")]
    with ThreadPoolExecutor(2) as both:
        outcomes = list(both.map(lambda _: make(tmp_path).did, range(2)))
    assert sorted(outcomes) in (["asked", "replayed"], ["asked", "unchanged"])
    assert candidate(tmp_path)[0] == b"x = 'first'\n"
    assert len(api.requests) == 1


def test_stored_answers_are_read_only_and_checked(api: EndpointServer, tmp_path: Path) -> None:
    make(tmp_path)
    path = tmp_path / str(candidate(tmp_path)[1].response_path)
    assert path.stat().st_mode & 0o777 == 0o444
    assert json.loads(path.read_text())["raw"]["choices"][0]["message"]["content"].startswith("Here:")
    os.chmod(path, 0o644)
    path.write_text("{}")
    KEY.source_path(tmp_path).unlink()
    with pytest.raises(ValueError, match=path.name):
        make(tmp_path)
    assert len(api.requests) == 1


def test_nothing_is_asked_for_that_cannot_be_kept(
    api: EndpointServer, tmp_path: Path, command, monkeypatch, capsys
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert command() == 75
    assert "No space left" in capsys.readouterr().err
    assert api.requests == []
    assert stored(tmp_path) == []
    monkeypatch.undo()
    shutil.rmtree(tmp_path / "generations/gen/responses")
    (tmp_path / "generations/gen/responses").write_text("a file where a folder should be")
    monkeypatch.setenv("KBV_TEST_URL", api.url)
    monkeypatch.setenv("KBV_TEST_KEY", SECRET)
    assert command() == 75
    assert "generations/gen/responses" in capsys.readouterr().err
    assert api.requests == []


def test_without_hard_links_answers_are_stored_all_the_same(api: EndpointServer, tmp_path: Path, monkeypatch) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", no_links)
    assert make(tmp_path).did == "asked"
    KEY.source_path(tmp_path).unlink()
    assert make(tmp_path).did == "replayed"
    assert len(stored(tmp_path)) == 1


# --- the command --------------------------------------------------------------------------------------------


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., int]:
    def call(*words: object, generator: str = "gen") -> int:
        path = table(tmp_path, HEADER + API_ROW + "old\timport\n")
        common = ["--generators", path, "--generator", generator, "--suite", "kb", "--problem", "level1_1"]
        return main([str(w) for w in ("generate", *common, "--sample", 0, "--root", tmp_path, *words)])

    return call


def test_command_line(api: EndpointServer, tmp_path: Path, command, capsys) -> None:
    assert command("--out", KEY.source_path(tmp_path)) == 0
    assert "asked" in capsys.readouterr().out
    assert candidate(tmp_path)[0] == CODE.encode()
    edit_source(tmp_path)
    assert command() == 0
    assert "kept" in capsys.readouterr().out


@pytest.mark.parametrize("variable", ["KBV_TEST_KEY", "KBV_TEST_URL"])
def test_a_missing_variable_is_a_fault(api: EndpointServer, command, variable: str, monkeypatch, capsys) -> None:
    monkeypatch.delenv(variable)
    assert command() == 75
    assert f"environment variable {variable}" in capsys.readouterr().err
    assert api.requests == []


def test_an_endpoint_that_is_down_is_a_fault(api: EndpointServer, command, monkeypatch, capsys) -> None:
    monkeypatch.setenv("KBV_TEST_URL", "http://127.0.0.1:9/v1")
    assert command() == 75
    assert "gen/kb/level1_1/0: no answer" in capsys.readouterr().err


def test_a_spent_budget_is_exit_75_and_no_sample(api: EndpointServer, tmp_path: Path, command, capsys) -> None:
    path = tmp_path / "limited.yaml"
    row = {"generator": "gen", "origin": "api", "model": "m", "base_url": api.url, "max_tokens": 9, "budget_tokens": 9}
    path.write_text(json.dumps([row]))
    assert command("--generators-tsv", path) == 75
    assert "gen/kb/level1_1/0: not asked: budget_tokens is 9" in capsys.readouterr().err
    assert api.requests == [] and not KEY.source_path(tmp_path).exists()


def test_rows_in_yaml(tmp_path: Path) -> None:
    path = tmp_path / "generators.yml"
    path.write_text("""
        - {generator: a, origin: api, model: m, base_url: "http://h/v1", extra_body: {x: {y: [1, null]}}, stream: yes}
        - {generator: b, origin: import, note: null}
    """)
    a, b = read_generators(path)
    assert (a.client().extra_body, a.stream, a.api_key_env, b.note) == ({"x": {"y": [1, None]}}, True, None, "")
    assert a.settings == {"extra_body": {"x": {"y": [1, None]}}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("generator: a", "not a list of rows"),
        ("- [a]", "not a list of rows"),
        ("- {generator: a, origin: api, colour: red}", "row 1: unknown column 'colour'"),
        ("- {generator: a, origin: api, model: m}", "row 1: .*origin api needs base_url or base_url_env"),
        ("- {generator: a, origin: import, stream: false}", "row 1: .*stream only go with origin api"),
        ("- {generator: a, origin: import}\n- {generator: a, origin: import}", "row 2: .*'a' is there twice"),
        (f"- {{api_key_env: {SECRET}: no", "no YAML at line 1"),
        (f"- {{generator: a, origin: api, model: m, base_url: 'https://u:{SECRET}@h/v1'}}", "row 1: .*not shown"),
        (f"- {{generator: a, origin: api, model: m, extra_body: {SECRET}}}", "row 1: column extra_body: .*not shown"),
    ],
)
def test_yaml_errors_name_the_row_and_no_secret(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "generators.yaml"
    path.write_text(text)
    with pytest.raises(GeneratorError, match=rf"generators\.yaml: {words}") as caught:
        read_generators(path)
    assert SECRET not in str(caught.value)


def test_an_extra_body_in_a_cell_is_json(tmp_path: Path) -> None:
    rows = 'generator\torigin\tmodel\tbase_url\textra_body\na\tapi\tm\thttp://h/v1\t{"seed": 7}\n'
    (spec,) = read_generators(table(tmp_path, rows))
    assert spec.extra_body == {"seed": 7}


def test_a_closed_generator_has_what_lies_there(api: EndpointServer, tmp_path: Path) -> None:
    make(tmp_path)
    closed = SPEC.model_copy(update={"closed": True, "samples": 5})
    assert discover_candidates(tmp_path, closed, "kb", ["level1_1", "level1_2"]) == [KEY]
    with pytest.raises(GeneratorError, match="generator gen: it is closed"):
        make(tmp_path, closed)


def test_bad_input_is_told(api: EndpointServer, tmp_path: Path, command, capsys) -> None:
    assert command("--out", tmp_path / "elsewhere.py") == 2
    assert command("--problem", "level9_9") == 2
    assert command("--problem", "nine") == 2
    assert command(generator="absent") == 2
    assert command(generator="old") == 2
    told = capsys.readouterr().err.splitlines()
    for line, words in zip(
        told, ["elsewhere.py", "level9_9.py", "'nine'", "there are gen, old", "only api"], strict=True
    ):
        assert words in line
    assert api.requests == []
