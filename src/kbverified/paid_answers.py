"""Ask once, keep for ever: the one way to an answer of an endpoint.

An answer that is stored is not asked for again, also where two processes want it at the same moment: they meet at a
lock per answer. Beside the answers, in the folder of the store:

    {key}.json          one answer, read-only
    spending.jsonl      what requests took (spending)
    locks/              of answers that are being asked for, and of that file
    limits/             of requests at once and a minute (request_limits)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import JsonValue

from kbverified import endpoint, file_lock
from kbverified.endpoint_settings import ClientSettings
from kbverified.prompts import sha256
from kbverified.request_limits import RequestLimits
from kbverified.response_store import StoredResponse, append, load, response_key, room
from kbverified.spending import Charge, Spending, key_lock


@dataclass(frozen=True)
class Obtained:
    """An answer, where it lies, and whether it was paid for just now."""

    response: StoredResponse
    path: Path
    did: Literal["asked", "replayed"]


def answer_key(
    client: ClientSettings,
    messages: endpoint.Messages,
    response_format: dict[str, JsonValue] | None = None,
    *,
    name: str,
) -> str:
    """Key of the answer to a question: another name, prompt, model or setting is another question."""
    return response_key(name, sha256(messages), client.model, endpoint.asked_settings(client, response_format))


def obtain(
    client: ClientSettings,
    messages: endpoint.Messages,
    response_format: dict[str, JsonValue] | None = None,
    *,
    name: str,
    folder: Path,
) -> Obtained:
    """The stored answer to a question, else ask, within all limits, and store it.

    ``name`` tells questions apart that are otherwise the same (a second sample) and stands in every error. Raises
    endpoint.RequestRejected, EndpointFault (BudgetExceeded among them), OSError, RecordError for a store that cannot
    be read. A replay needs neither key nor endpoint.
    """
    key = answer_key(client, messages, response_format, name=name)
    path = folder / f"{key}.json"
    if found := load(path):
        return Obtained(found, path, "replayed")
    with file_lock.held(key_lock(folder, key)) as lock:
        if found := load(path):  # by whoever held the lock before
            lock.remove()
            return Obtained(found, path, "replayed")
        gate = _gate(folder, client, key, name)
        gate.spending.bury()
        with room(path):
            answer = endpoint.ask(client, messages, response_format, name=name, gate=gate)
        stored = append(path, answer)
        with contextlib.suppress(OSError):  # a stored answer without its line is counted where one is looked for
            gate.settle_answer()
        lock.remove()
    return Obtained(stored, path, "asked")


def _gate(folder: Path, client: ClientSettings, key: str, name: str) -> _Gate:
    return _Gate(RequestLimits(folder / "limits", client, name), Spending(folder, client, key, name))


@dataclass(frozen=True)
class _Gate:
    """A turn is first waited for and then written down: what waits reserves nothing."""

    limits: RequestLimits
    spending: Spending
    answered: list[tuple[_Turn, int, int]] = field(default_factory=list)
    """Turns whose answer came and could not be written down yet, and what they took."""

    @contextlib.contextmanager
    def turn(self, prompt_tokens: int, completion_tokens: int | None) -> Iterator[_Turn]:
        with self.limits.turn(prompt_tokens + (completion_tokens or 0)) as turn:
            yield _Turn(self, turn, self.spending.reserve(prompt_tokens, completion_tokens))

    def pause(self, seconds: float) -> None:
        self.limits.pause(seconds)

    def settle_answer(self) -> None:
        for turn, prompt_tokens, completion_tokens in self.answered:
            turn.settle(prompt_tokens, completion_tokens, None)


@dataclass(frozen=True)
class _Turn:
    gate: _Gate
    id: str
    reserved: Charge

    def charge(self, prompt_tokens: int, completion_tokens: int, why: str | None) -> None:
        """Before the turn ends: whoever comes next reckons with what this one really took. What cannot be written down
        must not cost the answer."""
        try:
            self.settle(prompt_tokens, completion_tokens, why)
        except OSError:
            if why is not None:
                raise
            self.gate.answered.append((self, prompt_tokens, completion_tokens))

    def settle(self, prompt_tokens: int, completion_tokens: int, why: str | None) -> None:
        self.reserved.settle(prompt_tokens, completion_tokens, why)
        self.gate.limits.took(self.id, prompt_tokens + completion_tokens)
