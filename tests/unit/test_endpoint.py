"""One question over real HTTP, to a server that behaves and misbehaves."""

from __future__ import annotations

import base64
import email.utils
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from endpoint_server import Answer, EndpointServer, completion, error, events, html, serve
from pydantic import ValidationError

from kbverified import chat_body, endpoint, endpoint_http
from kbverified.endpoint import RequestRejected, ask
from kbverified.endpoint_settings import ClientSettings, EndpointFault, EndpointSettings
from kbverified.paid_answers import obtain
from kbverified.redaction import Secrets
from kbverified.response_store import StoredResponse, append

SECRET = "sk-very/secret+0123456789"
MESSAGES = [{"role": "user", "content": "Write a kernel."}]
CODE = "class ModelNew: pass\n"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EndpointServer]:
    monkeypatch.setattr(endpoint, "BACKOFF_S", 0.01)
    monkeypatch.setenv("KBV_TEST_KEY", SECRET)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve(completion(CODE)) as started:
        yield started


def settings(server: EndpointServer, **more: Any) -> ClientSettings:
    given = {"model": "some-model", "base_url": server.url, "api_key_env": "KBV_TEST_KEY", "retries": 2, **more}
    return ClientSettings.model_validate(given)


def answer(server: EndpointServer, *answers: Answer, **more: Any) -> StoredResponse:
    server.answers = list(answers) or server.answers
    return ask(settings(server, **more), MESSAGES, name="who")


BOTH = pytest.mark.parametrize("stream", [False, True])


# --- what is sent -------------------------------------------------------------------------------------------


def test_everything_that_is_set_is_sent_and_kept(server: EndpointServer) -> None:
    got = ask(
        settings(server, temperature=0, top_p=0.9, reasoning_effort="high", max_tokens=7, extra_body={"a": {"b": [1]}}),
        MESSAGES,
        {"type": "json_object"},
        name="who",
    )
    sent = {
        "model": "some-model", "temperature": 0.0, "top_p": 0.9, "reasoning_effort": "high", "max_tokens": 7,
        "a": {"b": [1]}, "response_format": {"type": "json_object"},
    }  # fmt: skip
    (request,) = server.requests
    assert {name: value for name, value in request.items() if name not in ("messages", "path", "stream")} == sent
    assert (request["messages"], request["path"], request.get("stream")) == (MESSAGES, "/v1/chat/completions", False)
    assert got.request == sent
    assert got.settings == {
        **{k: v for k, v in sent.items() if k not in ("a", "model")},
        "extra_body": {"a": {"b": [1]}},
    }
    assert server.headers[0]["authorization"] == f"Bearer {SECRET}"


def test_without_a_key_none_is_sent(server: EndpointServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is another vendor's, which openai would take from the environment by itself."""
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "sk-of-another-vendor")
    assert answer(server, api_key_env=None).content == CODE
    assert "authorization" not in server.headers[0]
    assert not [value for value in server.headers[0].values() if "another" in value]


@pytest.mark.parametrize("key", ["short", "sk-with a space 0123", "sk-umlaut-ä-0123456"])
def test_what_cannot_be_a_key_is_refused_and_not_repeated(server, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBV_TEST_KEY", key)
    with pytest.raises(EndpointFault, match="KBV_TEST_KEY") as caught:
        answer(server)
    assert key not in str(caught.value) and server.requests == []


def test_a_key_with_a_line_end_is_taken_without(server: EndpointServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBV_TEST_KEY", SECRET + "\n")
    answer(server)
    assert server.headers[0]["authorization"] == f"Bearer {SECRET}"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"base_url": "https://user:password@host/v1"}, "holds a password"),
        ({"base_url": "https://host/v1?key=secret-word"}, "holds a password or a query"),
        ({"base_url": "host/v1"}, "is no address"),
        ({"base_url": "https://host/v1", "base_url_env": "URL"}, "give one of them"),
        ({"extra_body": {"messages": []}}, "messages: has a column"),
        ({"extra_body": '{"seed": 7'}, "no JSON object"),
        ({"extra_body": "[1]"}, "valid dictionary"),
        ({"budget_tokens": 5}, "needs max_tokens"),
        ({"budget_usd": 5, "max_tokens": 5, "usd_per_million_prompt_tokens": 1}, "needs usd_per_million"),
        ({"top_p": 1.5}, "top_p"),
    ],
)
def test_settings_that_cannot_be(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words) as caught:
        EndpointSettings.model_validate(given)
    assert "password@" not in str(caught.value) and "secret-word" not in str(caught.value)


def test_a_limit_is_renamed_and_stream_options_left_out_where_the_server_says_so(server: EndpointServer) -> None:
    renamed = error(400, "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.")
    unknown = error(400, "unknown field stream_options")
    got = answer(server, renamed, unknown, completion(CODE), max_tokens=9, stream=True, retries=0)
    assert server.requests[2]["max_completion_tokens"] == 9
    assert not {"max_tokens", "stream_options"} & set(server.requests[2])
    assert (got.settings["max_tokens"], got.request["max_completion_tokens"], got.content) == (9, 9, CODE)


# --- answers ------------------------------------------------------------------------------------------------


@BOTH
def test_an_answer(server: EndpointServer, stream: bool) -> None:
    got = answer(server, completion(CODE, headers={"x-request-id": "r-1", "Set-Cookie": "a=b"}), stream=stream)
    assert (got.content, got.finish_reason, got.served_model) == (CODE, "stop", "some-model-2026-11-30")
    assert (got.prompt_tokens, got.completion_tokens, got.attempts, got.note) == (11, 22, 1, None)
    assert (got.counted_prompt_tokens, got.counted_completion_tokens) == (11, 22)
    assert got.raw["choices"][0]["message"]["content"] == CODE  # type: ignore[index]
    assert got.raw["usage"]["completion_tokens"] == 22  # type: ignore[index]
    assert got.response_headers.get("x-request-id") == "r-1"
    assert "set-cookie" not in got.response_headers
    assert bool(server.requests[0].get("stream")) is stream


@BOTH
def test_reasoning_is_kept_apart(server: EndpointServer, stream: bool) -> None:
    got = answer(server, completion(CODE, reasoning_content="I think so. " * 9), stream=stream)
    assert (got.content, got.reasoning) == (CODE, "I think so. " * 9)


@BOTH
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (completion(None, refusal="I will not."), (None, "I will not.", "stop")),
        (completion("", "length"), ("", None, "length")),
        (completion(None, "content_filter"), (None, None, "content_filter")),
    ],
)
def test_refusals_and_empty_answers_are_answers(server, body: Answer, expected: tuple, stream: bool) -> None:
    got = answer(server, body, stream=stream)
    # In a stream nothing tells an empty text from none.
    assert (got.content or None, got.refusal, got.finish_reason) == (expected[0] or None, *expected[1:])
    assert len(server.requests) == 1


def test_text_in_parts_is_joined(server: EndpointServer) -> None:
    assert answer(server, completion([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])).content == "ab"


def test_what_was_not_asked_for_is_understood_all_the_same(server: EndpointServer) -> None:
    """A server that ignores ``stream``, and one that streams to everybody, without DONE and with CRLF."""
    plain = completion(CODE).body
    assert answer(server, Answer(json.dumps(plain)), stream=True).content == CODE
    pieces = [
        {"id": "1", "choices": [{"index": 0, "delta": {"content": "a"}}]},
        {"id": "1", "choices": [{"index": 0, "delta": {"content": "b"}, "finish_reason": "stop"}]},
    ]
    text = "".join(f"event: message\r\ndata: {json.dumps(piece)}\r\n\r\n" for piece in pieces)
    got = answer(server, Answer(text, content_type="text/event-stream"))
    assert (got.content, got.finish_reason) == ("ab", "stop")


def test_a_connection_that_stays_open_after_the_end_is_not_waited_for(server: EndpointServer) -> None:
    began = time.monotonic()
    assert answer(server, completion(CODE, linger_s=5), stream=True).content == CODE
    assert time.monotonic() - began < 3


def test_an_answer_that_tells_of_a_streams_end_does_not_end_there(server: EndpointServer) -> None:
    """What has come so far ends with the very words, in the middle of a piece."""
    text = "Read on until it says\ndata: [DONE]"
    made = completion(text + "\nand stop there", piece_wait_s=0.0).body
    assert isinstance(made, dict)
    piece = {**made, "choices": [{"index": 0, "delta": {"content": text}}]}
    begins = f"data: {json.dumps(piece)}"
    begins = begins[: begins.index('[DONE]"') + len("[DONE]")]
    pieces = [begins.encode(), b'"}}]}\n\n', *events(completion("\nand stop there").body)]
    data, cut = endpoint_http._read(iter(pieces), time.monotonic() + 60)
    assert (data, cut) == (b"".join(pieces), None)
    assert chat_body.parse(data.decode())["choices"][0]["message"]["content"] == text + "\nand stop there"
    # And one that ends there is over, whatever may come after it.
    for end in (b"data: [DONE]", b"data:[DONE]\r\n\r\n"):
        assert endpoint_http._read(iter([b"data: {}\n\n" + end, b"x"]), time.monotonic() + 60)[0].endswith(end)


@BOTH
@pytest.mark.parametrize("depth", [300, 2_000, 100_000])
def test_an_answer_that_is_nested_too_deeply_is_kept_once(server, depth: int, stream: bool, tmp_path: Path) -> None:
    """No library here can store it as it is: asked again, it would be as deep, and cost as much."""
    whole = json.dumps(completion(CODE).body)
    if stream:
        whole = b"".join(events(completion(CODE).body)).decode()
    made = whole.replace('"created": 1', '"created": 1, "deep": ' + "[" * depth + "]" * depth)
    server.answers = [Answer(made, content_type="text/event-stream" if stream else "application/json")]
    for did in ("asked", "replayed"):
        got = obtain(settings(server, stream=stream), MESSAGES, name="who", folder=tmp_path)
        assert got.did == did
    assert len(server.requests) == 1
    if depth == 300:
        assert got.response.content == CODE and chat_body.TOO_DEEP in json.dumps(got.response.raw)
    else:
        assert got.response.content is None or got.response.content == CODE
        assert got.response.content == CODE or got.response.note.startswith("nested too deeply to be read: not kept")


def test_a_number_that_python_does_not_read_costs_no_answer(server: EndpointServer) -> None:
    body = json.dumps(completion(CODE).body).replace('"created": 1', '"created": ' + "1" * 5000)
    got = answer(server, Answer(body))
    assert (got.content, got.raw["created"], len(server.requests)) == (CODE, "1" * 5000, 1)


def test_an_answer_without_choices_is_asked_for_again_and_recorded_in_the_end(server: EndpointServer) -> None:
    none = Answer(
        {"id": "1", "model": "some-model", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 0}}
    )
    assert answer(server, none, completion(CODE)).content == CODE
    server.requests.clear()
    got = answer(server, none)
    assert (got.content, got.finish_reason, got.attempts, len(server.requests)) == (None, None, 3, 3)
    assert "no choice in the answer" in str(got.note)


def test_another_models_name_is_noted(server: EndpointServer) -> None:
    for name in ("cheap-model", "some-model-mini", "some-model.5", ""):
        assert answer(server, completion(CODE, model=name)).note == f"answered as {name!r}"
    for name in ("some-model", "some-model-2026-11-30", "Owner/Some-Model", "some-model:latest", None):
        assert answer(server, completion(CODE, model=name)).note is None


@pytest.mark.parametrize(
    ("usage", "reported", "counted", "words"),
    [
        (None, None, 1000, "completion tokens not reported, 1000 counted"),
        ((5, 0), 0, 1000, "completion tokens 0 reported for 3000 bytes, 1000 counted"),
        ((5, -7), None, 1000, "not reported"),
        ({"prompt_tokens": 5, "completion_tokens": "12"}, None, 1000, "not reported"),
        ({"prompt_tokens": 5, "completion_tokens": 1e300}, None, 1000, "not reported"),
        ("none", None, 1000, "not reported"),
        ((5, 90000), 90000, 90000, None),  # reasoning that is not shown
    ],
)
def test_usage_that_cannot_be_does_not_count(server, usage: Any, reported: Any, counted: int, words: Any) -> None:
    got = answer(server, completion("abc" * 1000, usage=usage))
    assert (got.completion_tokens, got.counted_completion_tokens) == (reported, counted)
    assert (words is None) is (got.note is None) and (words or "") in str(got.note or "")


def test_numbers_that_are_none_and_lone_surrogates_can_be_stored(server: EndpointServer, tmp_path: Path) -> None:
    body = json.dumps(completion("x = '\ud800'\n").body).replace(
        '"created": 1', '"created": NaN, "more": [1e999, -0.0]'
    )
    got = answer(server, Answer(body))
    kept = append(tmp_path / "a.json", got)
    assert kept.content == "x = '\ufffd'\n"
    assert (kept.raw["created"], kept.raw["more"]) == ("NaN", ["1e999", -0.0])


def test_a_huge_answer_is_cut_off_and_recorded(server: EndpointServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next would be as large, and cost as much."""
    monkeypatch.setattr(endpoint_http, "BODY_MAX_BYTES", 100_000)
    got = answer(server, completion("a" * 200_000))
    assert (got.content, got.finish_reason, len(server.requests)) == (None, "length", 1)
    assert got.note is not None and got.note.startswith("more than 100000 bytes: not kept")
    assert got.counted_completion_tokens == 33_334  # a token per three bytes of what came
    assert len(json.dumps(got.raw)) < 100_000


def test_of_a_huge_stream_its_text_is_counted_and_not_its_frames(
    server: EndpointServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint_http, "BODY_MAX_BYTES", 100_000)
    piece = json.dumps({"choices": [{"index": 0, "delta": {"content": "abc"}}]})
    got = answer(server, Answer(f"data: {piece}\n\n" * 4000, content_type="text/event-stream"))
    came = 100_000 // len(f"data: {piece}\n\n")  # pieces of three letters, a token each
    assert got.counted_completion_tokens == pytest.approx(came, rel=0.05)


@pytest.mark.parametrize("code", ["²", "9" * 5000, "four hundred"])
def test_an_error_with_an_odd_code_is_an_error(code: str) -> None:
    with pytest.raises(chat_body.ErrorBody, match="on fire") as caught:
        chat_body.parse(json.dumps({"error": {"message": "on fire", "code": code}}))
    assert caught.value.code is None


def test_a_stream_of_many_pieces_is_joined_in_time() -> None:
    """100,000 pieces: adding each to the text before would copy 30 GB."""
    piece = json.dumps({"choices": [{"index": 0, "delta": {"content": "x = 1\n"}}]})
    began = time.process_time()
    body = chat_body.parse(f"data: {piece}\n\n" * 100_000 + "data: [DONE]\n\n")
    assert body["choices"][0]["message"]["content"] == "x = 1\n" * 100_000
    assert time.process_time() - began < 10


# --- faults -------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    "fault",
    [
        error(500, "on fire"),
        error(503, "overloaded"),
        error(408, "slow"),
        error(409, "locked"),
        error(429, "too fast"),
        html(502),
        error(200, "upstream is busy", code=429),
        error(200, "overloaded"),
        completion(CODE, cut_after=60),
        Answer(b""),
        Answer(b'{"id": "1", "choices": [{"mess'),
    ],
)
def test_what_passes_is_tried_again(server: EndpointServer, fault: Answer, stream: bool) -> None:
    got = answer(server, fault, fault, completion(CODE), stream=stream)
    assert (got.content, got.attempts) == (CODE, 3)
    server.requests.clear()
    with pytest.raises(EndpointFault, match="who: no answer after 2 retries"):
        answer(server, fault, stream=stream)
    assert len(server.requests) == 3


def test_a_stream_that_breaks_off_is_no_answer(server: EndpointServer) -> None:
    whole = completion("abcdefg" * 20)
    assert answer(server, completion("abcdefg" * 20, cut_after=1500), whole, stream=True).content == "abcdefg" * 20
    error_inside = (
        'data: {"id": "1", "choices": [{"index": 0, "delta": {"content": "half"}}]}\n\n'
        'data: {"error": {"message": "the worker died"}}\n\ndata: [DONE]\n\n'
    )
    server.requests.clear()
    assert answer(server, Answer(error_inside), whole, stream=True).content == "abcdefg" * 20
    with pytest.raises(EndpointFault, match="cut off: the stream ends with an error: the worker died"):
        answer(server, Answer(error_inside), stream=True, retries=0)


def test_slow_answers_are_waited_for_up_to_the_limit(server: EndpointServer) -> None:
    assert answer(server, completion(CODE, wait_s=0.3), timeout_s=5).content == CODE
    with pytest.raises(EndpointFault, match=r"no answer after 0 retries: APITimeoutError"):
        answer(server, completion(CODE, wait_s=1), timeout_s=0.2)
    # Each piece comes in time, the whole does not.
    with pytest.raises(EndpointFault, match="cut off: took too long"):
        answer(server, completion("abcdefg" * 100, piece_wait_s=0.05), timeout_s=0.4, stream=True)


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (error(401, f"Incorrect API key {SECRET}"), EndpointFault, "refuses the API key"),
        (error(403, "no"), EndpointFault, "refuses the API key"),
        (error(402, "pay"), EndpointFault, "no money or quota left"),
        (error(429, "You exceeded your current quota", code="insufficient_quota"), EndpointFault, "no money or quota"),
        (error(404, "The model does not exist"), RequestRejected, "model 'some-model'.*does not exist"),
        (error(400, "temperature must be 1"), RequestRejected, "settings {'temperature': 0.5}.*must be 1"),
        (error(200, "no such model", code="404"), RequestRejected, "no such model"),
        (html(), EndpointFault, "no chat completion.*A portal.*end in /v1"),
        (Answer({"object": "list", "data": []}), EndpointFault, "no chat completion"),
        (Answer("[" * 100_000), EndpointFault, "no chat completion"),
    ],
)
def test_what_does_not_pass_is_not_tried_again(server, fault: Answer, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        answer(server, fault, temperature=0.5)
    assert len(server.requests) == 1
    assert SECRET not in str(caught.value) and str(caught.value).startswith("who: ")


def test_a_redirect_is_followed_without_the_key(server: EndpointServer) -> None:
    with serve(completion(CODE)) as other:
        server.answers = [Answer("", 307, {"Location": f"http://localhost:{other.server_port}/v1/chat/completions"})]
        assert answer(server).content == CODE
        assert "authorization" not in other.headers[0]


@pytest.mark.parametrize(
    ("headers", "least_s"),
    [
        ({"retry-after-ms": "300"}, 0.3),
        ({"Retry-After": "1"}, 1.0),
        ({"Retry-After": "soon"}, 0.0),
        ({"Retry-After": "-5"}, 0.0),
    ],
)
def test_retry_after_is_honoured(server: EndpointServer, headers: dict[str, str], least_s: float) -> None:
    answer(server, error(429, "slow down", headers), completion(CODE))
    first, second = server.times
    assert least_s <= second - first < least_s + 0.8


def test_retry_after_may_be_a_date_and_too_far_off(server: EndpointServer) -> None:
    date = email.utils.formatdate(time.time() + 7200, usegmt=True)
    with pytest.raises(EndpointFault, match=r"wants to be asked again in 7[12]\d\d s, which is longer than this waits"):
        answer(server, error(503, "maintenance", {"Retry-After": date}))
    assert len(server.requests) == 1


def test_pauses_grow_and_differ(server: EndpointServer, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(endpoint, "BACKOFF_S", 1.0)
    monkeypatch.setattr(endpoint.time, "sleep", lambda pause: slept.append(pause) if pause else None)
    with pytest.raises(EndpointFault):
        answer(server, error(500, "on fire"), retries=8)
    assert all(2**n / 2 <= pause <= 2**n for n, pause in enumerate(slept[:6]))
    assert all(30 <= pause <= 60 for pause in slept[6:]) and len(slept) == 8
    assert len({pause / 2**n for n, pause in enumerate(slept[:6])}) > 1


# --- keys ---------------------------------------------------------------------------------------------------

ECHOES = [
    SECRET,
    quote(SECRET, safe=""),
    base64.b64encode(SECRET.encode()).decode(),
    f"Bearer {SECRET}",
]


@BOTH
@pytest.mark.parametrize("echo", ECHOES)
def test_a_key_that_the_server_echoes_is_kept_nowhere(server, echo: str, stream: bool, tmp_path: Path) -> None:
    """In the text (in a stream in pieces of seven characters), in names, in headers."""
    body = completion(f"# {echo}\n{CODE}", reasoning_content=f"the key is {echo}", model=f"some-model {echo}")
    assert isinstance(body.body, dict)
    body.body["system_fingerprint"] = echo
    body.body["usage"][echo] = echo
    server.answers = [Answer(body.body, headers={"x-request-id": echo, "x-ratelimit-key": echo})]
    append(tmp_path / "kept.json", answer(server, stream=stream))
    text = (tmp_path / "kept.json").read_text()
    assert not [form for form in ECHOES if form in text]
    assert "# [API key]" in text or "# Bearer [API key]" in text


@pytest.mark.parametrize("echo", ECHOES)
@pytest.mark.parametrize("status", [200, 400, 401, 404, 429, 500])
def test_a_key_in_an_error_is_not_repeated(server: EndpointServer, echo: str, status: int) -> None:
    with pytest.raises((EndpointFault, RequestRejected)) as caught:
        answer(server, error(status, f"bad key {echo}"), retries=0)
    assert "bad key" in str(caught.value)
    assert not [form for form in ECHOES if form in str(caught.value)]


@pytest.mark.parametrize(
    "address", ["https://{key}@host/v1", "https://user:{key}@host/v1", "https://host/v1?api_key={key}"]
)
def test_a_key_in_the_address_is_a_key(address: str) -> None:
    key = "sk-in-the-address-0123456789"
    assert key not in Secrets.of(address.format(key=key), "").line(f"denied: {key} is unknown")


def test_a_query_of_the_address_goes_with_every_request(server, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a version in it is a date, which an answer may hold."""
    address = server.url + "?api-version=2024-10-21&api-key=sk-in-a-query-0123"
    monkeypatch.setenv("KBV_TEST_URL", address)
    got = answer(server, completion("2024-10-21 sk-in-a-query-0123"), base_url=None, base_url_env="KBV_TEST_URL")
    (request,) = server.requests
    assert request["path"] == "/v1/chat/completions?api-version=2024-10-21&api-key=sk-in-a-query-0123"
    assert got.content == "2024-10-21 [API key]"


@pytest.mark.parametrize("end", ["?key=a-secret-word&key=another", "#a-secret-word"])
def test_an_address_that_cannot_be_sent_is_refused(server, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBV_TEST_URL", "https://host/v1" + end)
    with pytest.raises(EndpointFault, match=r"KBV_TEST_URL \(base URL\) is https://host/v1 and ") as caught:
        answer(server, base_url=None, base_url_env="KBV_TEST_URL")
    assert "secret-word" not in str(caught.value) and "https://host/v1?name=value" in str(caught.value)


def test_no_half_of_a_key_is_left_where_words_are_cut(server: EndpointServer, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = Secrets.of(server.url, SECRET)
    for before in range(480, 500):
        assert SECRET[:4] not in secrets.line("x" * before + SECRET)
    for before in range(180, 200):  # of a page that is no completion the first 200 characters are told
        with pytest.raises(EndpointFault, match="no chat completion: 'xxx") as caught:
            answer(server, Answer("x" * before + SECRET))
        assert SECRET[:4] not in str(caught.value)
    monkeypatch.setattr(endpoint_http, "BODY_MAX_BYTES", 100_000)
    got = answer(server, completion("x" * 65_300 + (SECRET + " ") * 10_000))
    assert "[API key]" in str(got.raw) and SECRET[:4] not in str(got.raw)[:-300]


def test_no_log_has_a_key_however_loud_it_is(server: EndpointServer) -> None:
    body = error(500, f"on fire {SECRET}", {"x-echo": SECRET, "x-request-id": SECRET})
    server.answers = [body]
    code = (
        "import logging; logging.basicConfig(level=logging.DEBUG)\n"
        "from kbverified import endpoint; endpoint.BACKOFF_S = 0\n"
        "from kbverified.endpoint_settings import ClientSettings\n"
        f"c = ClientSettings(model='m', base_url={server.url!r}, api_key_env='KBV_TEST_KEY', retries=1)\n"
        "endpoint.ask(c, [{'role': 'user', 'content': 'hello'}], name='who')\n"
    )
    environment = {**os.environ, "OPENAI_LOG": "debug"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert "no answer after 1 retries" in done.stderr
    assert SECRET not in done.stderr + done.stdout


def test_the_password_of_an_address_is_a_secret_too(server: EndpointServer, monkeypatch: pytest.MonkeyPatch) -> None:
    address = server.url.replace("http://", "http://user:pass-word-1@")
    monkeypatch.setenv("KBV_TEST_URL", address)
    server.answers = [error(500, "at http://user:pass-word-1@127.0.0.1"), completion("pass-word-1")]
    assert answer(server, base_url=None, base_url_env="KBV_TEST_URL").content == "[API key]"


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_stream_may_end_without_an_empty_line_before_its_done(newline: str) -> None:
    text = "Until it says\ndata: [DONE]\n\nand on."
    piece = json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]})
    frames = [f"data: {piece}", "", f"data: {piece}", "data: [DONE]", "", ""]
    assert chat_body.answer_of(chat_body.parse(newline.join(frames))).content == text + text
