"""One HTTP request to ``/chat/completions``: an answer, or what went wrong and whether it may have been billed."""

from __future__ import annotations

import email.utils
import functools
import logging
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from kbverified import chat_body
from kbverified.redaction import Secrets

CONNECT_TIMEOUT_S = 30.0
BODY_MAX_BYTES = 8 << 20
"""So large may an answer be. No model writes as much; a server that does not stop is cut off."""

TOO_LARGE = "too large"
# A whole line: within a piece, which is JSON, no line ends. What has come of it may end in the middle of a text.
_STREAM_END = re.compile(rb"(?:\A|[\r\n])data: ?\[DONE\]\s*\Z")
_AGAIN = (408, 409, 425, 429)
_KEPT_HEADERS = ("date", "server", "content-type", "retry-after", "x-request-id", "request-id", "openai-version")
_KEPT_PREFIXES = ("x-ratelimit-",)


@dataclass(frozen=True)
class Reply:
    """An answer."""

    answer: chat_body.Answer
    headers: dict[str, str]
    duration_s: float
    notes: tuple[str, ...] = ()
    lost_bytes: int = 0
    """Size of what came and is not kept: it was paid for as well."""


@dataclass(frozen=True)
class Failure:
    """No answer."""

    words: str
    again: bool
    """Whether it may be otherwise the next time."""
    rejected: bool = False
    """The request itself is wrong."""
    wait_s: float | None = None
    """How long the server wants to be left alone."""
    perhaps_billed: bool = False
    text_characters: int = 0
    """How much of an answer came."""


def send(
    base_url: str, api_key: str | None, secrets: Secrets, body: Mapping[str, Any], timeout_s: float
) -> Reply | Failure:
    """Send one request. What comes back is blanked of secrets; nothing is raised for what a server does."""
    import openai

    began = time.monotonic()
    named = {name: body[name] for name in ("model", "messages")}
    rest = {name: value for name, value in body.items() if name not in named and name != "stream"}
    create = _client(base_url, api_key).chat.completions.with_streaming_response.create
    try:
        with create(
            **named,
            stream=bool(body.get("stream")),
            extra_body=rest,
            extra_headers=None if api_key else {"Authorization": openai.Omit()},
            timeout=openai.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S)),
        ) as response:
            headers = _kept(response.headers, secrets)
            data, cut = _read(response.iter_bytes(), began + timeout_s)
    except openai.APIStatusError as error:
        return _of_status(error, secrets)
    except openai.APIConnectionError as error:  # APITimeoutError is one
        return _of_connection(error, secrets)
    except openai.OpenAIError as error:
        return Failure(secrets.line(f"{type(error).__name__}: {error}"), again=False)
    return _of_body(data, cut, headers, time.monotonic() - began, secrets)


@functools.lru_cache(maxsize=16)
def _client(base_url: str, api_key: str | None) -> Any:
    """A client that retries nothing by itself: every request has to be admitted and accounted for."""
    import openai

    # Their debug output has headers and bodies in it.
    for name in ("openai", "httpx", "httpx2", "httpcore", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)
    parts = urlsplit(base_url)  # openai would append /chat/completions to a query
    client = openai.OpenAI(
        base_url=urlunsplit(parts._replace(query="")),
        default_query=dict(parse_qsl(parts.query, keep_blank_values=True)),
        api_key=api_key or "none",
        max_retries=0,
    )
    # From the environment: another vendor's names are none of this one's business.
    client.organization = client.project = None
    return client


def _read(pieces: Iterable[bytes], deadline: float) -> tuple[bytes, str | None]:
    """The body, and why it ends before its end."""
    data = bytearray()
    try:
        for piece in pieces:
            data += piece
            if len(data) > BODY_MAX_BYTES:
                return bytes(data[:BODY_MAX_BYTES]), TOO_LARGE
            if _STREAM_END.search(data, max(0, len(data) - 64)):
                break  # some servers keep the connection open
            if time.monotonic() > deadline:
                return bytes(data), "took too long"
    except Exception as error:  # httpx's or httpx2's, as openai has it
        if not type(error).__module__.startswith("httpx"):
            raise
        return bytes(data), f"{type(error).__name__}: {error}"
    return bytes(data), None


def _of_body(data: bytes, cut: str | None, headers: dict[str, str], took_s: float, secrets: Secrets) -> Reply | Failure:
    # Blanked twice: as text, before any of it is cut for an error, and as values, which may be spelled otherwise.
    text = secrets.blank(data.decode("utf-8", "replace"))
    try:
        body = chat_body.parse(text)
    except chat_body.CutBody as error:
        if cut == TOO_LARGE:
            # Of a stream what its frames carry is paid for, and not the frames.
            lost_bytes = error.text_characters or len(text.encode())
            return _not_kept(text, headers, took_s, f"more than {BODY_MAX_BYTES} bytes", "length", lost_bytes)
        words = secrets.line(f"the answer was cut off: {cut or error}")
        return Failure(words, again=True, perhaps_billed=True, text_characters=error.text_characters)
    except chat_body.DeepBody as error:
        return _not_kept(text, headers, took_s, str(error), None, len(text.encode()))
    except chat_body.ErrorBody as error:
        return _of_code(error.code, f"an error instead of an answer: {error}", None, secrets)
    except chat_body.ForeignBody as error:
        return Failure(secrets.line(f"{error}. Does the base URL end in /v1?"), again=False)
    answer = chat_body.answer_of(secrets.blanked(body))
    return Reply(answer, headers, took_s, (f"cut off, as it was {cut}",) if cut else ())


def _not_kept(
    text: str, headers: dict[str, str], took_s: float, why: str, finish_reason: str | None, lost_bytes: int
) -> Reply:
    """An answer all the same: the next would be as large or as deep, and cost as much."""
    raw = {"choices": [{"finish_reason": finish_reason, "message": {"content": None}}]}
    answer = chat_body.answer_of({**raw, "body_begins": text[: 64 << 10]})
    return Reply(answer, headers, took_s, (f"{why}: not kept",), lost_bytes=lost_bytes)


def _of_status(error: Any, secrets: Secrets) -> Failure:
    words = f"{error} ({error.code})" if error.code else str(error)
    return _of_code(error.status_code, words, _retry_after_s(error.response.headers), secrets)


def _of_code(code: int | None, words: str, wait_s: float | None, secrets: Secrets) -> Failure:
    """What a status means, in the response's line or in its body."""
    words = secrets.line(words)
    if code in (401, 403):
        return Failure(f"the endpoint refuses the API key: {words}", again=False)
    if code == 402 or "insufficient_quota" in words:
        return Failure(f"the account has no money or quota left: {words}", again=False)
    if code is None or code in _AGAIN or code >= 500:
        return Failure(words, again=True, wait_s=wait_s)
    if 300 <= code < 400:
        return Failure(f"the endpoint is elsewhere: {words}", again=False)
    return Failure(words, again=False, rejected=True)


def _of_connection(error: Exception, secrets: Secrets) -> Failure:
    cause = error.__cause__
    kind = type(cause or error).__name__
    # Nothing was sent where there was no connection.
    sent = kind not in ("ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "ProxyError")
    words = secrets.line(f"{type(error).__name__}: {error} ({kind}: {cause})")
    return Failure(words, again=True, perhaps_billed=sent)


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds of Retry-After (RFC 9110, 10.2.3: seconds or a date) or retry-after-ms; None where neither is usable."""
    for name, unit_s in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            value = float(headers.get(name, "")) * unit_s
        except ValueError:
            continue
        if 0 <= value < 1e9:
            return value
    try:
        until = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except (TypeError, ValueError, OverflowError):
        return None
    return max(0.0, until.timestamp() - time.time())


def _kept(headers: Mapping[str, str], secrets: Secrets) -> dict[str, str]:
    return {
        name.lower(): secrets.line(value, 200)
        for name, value in headers.items()
        if name.lower() in _KEPT_HEADERS or name.lower().startswith(_KEPT_PREFIXES)
    }
