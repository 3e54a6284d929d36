"""One question to an OpenAI-compatible endpoint: what is sent, what its failures mean, and when it is sent again."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from pydantic import JsonValue

from kbverified import tokens
from kbverified.endpoint_http import Failure, Reply, send
from kbverified.endpoint_settings import ClientSettings, EndpointFault, Settings, address_and_secrets
from kbverified.model_names import same_model
from kbverified.prompts import sha256
from kbverified.redaction import Secrets
from kbverified.response_store import StoredResponse

BACKOFF_S = 1.0
BACKOFF_MAX_S = 60.0
RETRY_AFTER_MAX_S = 600.0
"""A server that wants to be left alone for longer is: the job ends, and the message says until when."""

Messages = list[dict[str, str]]


class RequestRejected(ValueError):
    """The endpoint does not accept this request, and will not the next time: wrong model name or settings."""


class Turn(Protocol):
    """One request that is allowed, and has to say what it took."""

    def charge(self, prompt_tokens: int, completion_tokens: int, why: str) -> None:
        """``why``: why something was taken and nothing came."""

    def keep(self, answer: StoredResponse) -> StoredResponse:
        """An answer came: where it is stored, the one that is stored then."""


class Gate(Protocol):
    """Who decides when a request may be sent, and whether at all."""

    def turn(self, prompt_tokens: int, completion_tokens: int | None) -> contextlib.AbstractContextManager[Turn]:
        """Wait for a turn. ``completion_tokens``: most that the answer may take, where that is known."""

    def pause(self, seconds: float) -> None:
        """The server wants to be left alone for so long, by everybody."""


class _NoTurn:
    def charge(self, prompt_tokens: int, completion_tokens: int, why: str) -> None:
        pass

    def keep(self, answer: StoredResponse) -> StoredResponse:
        return answer


class NoGate:
    """No limits and no store: every request is sent at once."""

    @contextlib.contextmanager
    def turn(self, prompt_tokens: int, completion_tokens: int | None) -> Iterator[Turn]:
        yield _NoTurn()

    def pause(self, seconds: float) -> None:
        pass


def asked_settings(client: ClientSettings, response_format: dict[str, JsonValue] | None = None) -> Settings:
    """All that is asked beside model and messages: part of the answer's key."""
    return {**client.settings, **({"response_format": response_format} if response_format else {})}


def ask(
    client: ClientSettings,
    messages: Messages,
    response_format: dict[str, JsonValue] | None = None,
    *,
    name: str,
    gate: Gate | None = None,
) -> StoredResponse:
    """Ask one question and return the answer. ``name`` says whose it is, in the answer and in every error.

    What passes is tried again ``client.retries`` times: no connection, timeouts, 408, 409, 425, 429, 5xx, what is cut.
    Nothing is stored here but by the ``gate``: ``paid_answers.obtain`` asks once and keeps the answer.
    Raises EndpointFault (try again later) or RequestRejected; an empty answer or a refusal is an answer.
    """
    question = _Question(client, messages, asked_settings(client, response_format), name, gate or NoGate())
    return question.answer()


@dataclass
class _Question:
    client: ClientSettings
    messages: Messages
    settings: Settings
    name: str
    gate: Gate

    def answer(self) -> StoredResponse:
        url, key, secrets = address_and_secrets(self.client, self.name)
        body = _body(self.client, self.settings)
        attempt, began = 0, None
        while True:
            attempt += 1
            with self.gate.turn(self._prompt_estimate(), self.client.max_tokens) as turn:
                began = began or time.monotonic()  # waiting for the first turn is no trying
                outcome = send(url, key, secrets, {**body, "messages": self.messages}, self.client.timeout_s)
                last = attempt > self.client.retries or time.monotonic() - began > self.client.timeout_s
                if isinstance(outcome, Reply) and (outcome.answer.has_choice or last):
                    return turn.keep(self._response(outcome, body, attempt, secrets))
                failure = self._charge(outcome, turn)
            if renamed := _in_its_own_words(body, failure):
                body, attempt = renamed, attempt - 1
                continue
            self._give_up(failure, secrets, attempt, last)
            self._wait(failure, attempt)

    def _prompt_estimate(self) -> int:
        return tokens.message_tokens(self.messages)

    def _charge(self, outcome: Reply | Failure, turn: Turn) -> Failure:
        """Say what a request took that brought nothing to keep."""
        if isinstance(outcome, Reply):
            taken = self._counted(outcome)
            turn.charge(taken.prompt, taken.completion, "no choice in the answer")
            return Failure("the answer has no choice", again=True)
        if outcome.perhaps_billed:
            came = tokens.text_tokens(outcome.text_characters)
            turn.charge(self._prompt_estimate(), max(came, self.client.max_tokens or 0), outcome.words[:200])
        else:
            turn.charge(0, 0, outcome.words[:200])
        return outcome

    def _give_up(self, failure: Failure, secrets: Secrets, attempt: int, last: bool) -> None:
        """Raise where another try would not do."""
        words = secrets.line(failure.words)
        if failure.rejected:
            settings = secrets.line(self.settings)
            raise RequestRejected(f"{self.name}: model {self.client.model!r}, settings {settings}: {words}")
        if not failure.again:
            raise EndpointFault(f"{self.name}: {words}")
        if (failure.wait_s or 0) > RETRY_AFTER_MAX_S:
            self.gate.pause(failure.wait_s or 0)
            raise EndpointFault(
                f"{self.name}: the endpoint wants to be asked again in {failure.wait_s:.0f} s, which is longer than "
                f"this waits: {words}"
            )
        if last:
            raise EndpointFault(f"{self.name}: no answer after {attempt - 1} retries: {words}")

    def _wait(self, failure: Failure, attempt: int) -> None:
        """As long as the server says, else twice as long each time; never all at the same moment."""
        if failure.wait_s is not None:
            self.gate.pause(failure.wait_s)
            time.sleep(failure.wait_s * (1 + 0.1 * random.random()))
        else:
            time.sleep(min(BACKOFF_MAX_S, BACKOFF_S * 2 ** (attempt - 1)) * random.uniform(0.5, 1))

    def _counted(self, reply: Reply) -> _Counted:
        answer = reply.answer
        said = reply.lost_bytes or tokens.size_bytes((answer.content, answer.reasoning, answer.refusal))
        asked = tokens.message_bytes(self.messages)
        prompt, odd_prompt = tokens.counted(answer.prompt_tokens, self._prompt_estimate(), asked)
        completion, odd = tokens.counted(answer.completion_tokens, tokens.text_tokens(said), said)
        notes = [
            f"usage: {what} tokens {why}, {number} counted"
            for what, number, why in (("prompt", prompt, odd_prompt), ("completion", completion, odd))
            if why
        ]
        return _Counted(prompt, completion, notes)

    def _response(self, reply: Reply, body: dict[str, Any], attempt: int, secrets: Secrets) -> StoredResponse:
        answer, taken = reply.answer, self._counted(reply)
        notes = [*reply.notes, *taken.notes]
        if not answer.has_choice:
            notes.append("no choice in the answer")
        if answer.served_model is not None and not same_model(self.client.model, answer.served_model):
            notes.append(f"answered as {str(answer.served_model)[:100]!r}")
        return StoredResponse(
            candidate=self.name,
            prompt_sha256=sha256(self.messages),
            messages=tuple(self.messages),
            model=self.client.model,
            settings=self.settings,
            request=secrets.blanked(body),
            received_at=datetime.now(UTC).isoformat(timespec="seconds"),
            duration_s=round(reply.duration_s, 3),
            attempts=attempt,
            content=answer.content,
            refusal=answer.refusal,
            reasoning=answer.reasoning,
            finish_reason=answer.finish_reason,
            served_model=answer.served_model,
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
            counted_prompt_tokens=taken.prompt,
            counted_completion_tokens=taken.completion,
            note="; ".join(notes) or None,
            response_headers=reply.headers,
            raw=answer.raw,
        )


@dataclass(frozen=True)
class _Counted:
    prompt: int
    completion: int
    notes: list[str]


def _body(client: ClientSettings, settings: Settings) -> dict[str, Any]:
    """What is sent beside the messages."""
    own = {name: value for name, value in settings.items() if name != "extra_body"}
    body = {"model": client.model, **own, **(client.extra_body or {})}
    if client.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


def _in_its_own_words(body: dict[str, Any], failure: Failure) -> dict[str, Any] | None:
    """The same request as this server takes it, where a refusal says how: newer models know the limit under another
    name only, and older servers count no tokens of a stream."""
    if not failure.rejected:
        return None
    if "max_tokens" in body and "max_completion_tokens" in failure.words:
        renamed = {name: value for name, value in body.items() if name != "max_tokens"}
        return {**renamed, "max_completion_tokens": body["max_tokens"]}
    if "stream_options" in body and "stream_options" in failure.words:
        return {name: value for name, value in body.items() if name != "stream_options"}
    return None
