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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

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


ResponseFormat = dict[str, JsonValue] | None


class Obtain(Protocol):
    """``obtain`` or ``stored``."""

    def __call__(
        self,
        client: ClientSettings,
        messages: endpoint.Messages,
        response_format: ResponseFormat = None,
        *,
        name: str,
        folder: Path,
    ) -> Obtained: ...


class NotStored(LookupError):
    """A question whose answer is not in the store."""

    def __init__(self, name: str, messages: endpoint.Messages):
        super().__init__(f"{name}: no answer in the store")
        self.messages = messages


def answer_key(
    client: ClientSettings,
    messages: endpoint.Messages,
    response_format: ResponseFormat = None,
    *,
    name: str,
) -> str:
    """Key of the answer to a question: another name, prompt, model or setting is another question."""
    return response_key(name, sha256(messages), client.model, endpoint.asked_settings(client, response_format))


def stored(
    client: ClientSettings,
    messages: endpoint.Messages,
    response_format: ResponseFormat = None,
    *,
    name: str,
    folder: Path,
) -> Obtained:
    """The stored answer to a question; nobody is asked. Raises NotStored, RecordError, OSError."""
    path = folder / f"{answer_key(client, messages, response_format, name=name)}.json"
    if (found := load(path)) is None:
        raise NotStored(name, messages)
    return Obtained(found, path, "replayed")


def obtain(
    client: ClientSettings,
    messages: endpoint.Messages,
    response_format: ResponseFormat = None,
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
        limits, spending = RequestLimits(folder / "limits", client, name), Spending(folder, client, key, name)
        spending.bury()
        with room(path) as give_up_room:
            gate = _Gate(path, limits, spending, give_up_room)
            stored = endpoint.ask(client, messages, response_format, name=name, gate=gate)
        lock.remove()
    return Obtained(stored, path, "asked")


@dataclass(frozen=True)
class _Gate:
    """A turn is first waited for and then written down: what waits reserves nothing."""

    path: Path
    """Of the answer."""
    limits: RequestLimits
    spending: Spending
    give_up_room: Callable[[], None]

    @contextlib.contextmanager
    def turn(self, prompt_tokens: int, completion_tokens: int | None) -> Iterator[_Turn]:
        with self.limits.turn(prompt_tokens + (completion_tokens or 0)) as turn:
            yield _Turn(self, turn, self.spending.reserve(prompt_tokens, completion_tokens))

    def pause(self, seconds: float) -> None:
        self.limits.pause(seconds)


@dataclass(frozen=True)
class _Turn:
    gate: _Gate
    id: str
    reserved: Charge

    def charge(self, prompt_tokens: int, completion_tokens: int, why: str) -> None:
        self._settle(prompt_tokens, completion_tokens, why)

    def keep(self, answer: StoredResponse) -> StoredResponse:
        """Stored first: who dies before the line is written has paid once, and is counted by the answer (spending).
        Both before the turn ends: whoever comes next reckons with what this one really took."""
        took = answer.counted_prompt_tokens or 0, answer.counted_completion_tokens or 0
        self.gate.give_up_room()
        try:
            stored = append(self.gate.path, answer)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._settle(*took, f"could not be stored: {error}"[:200])
            raise
        with contextlib.suppress(OSError):  # what cannot be written down must not cost the answer
            self._settle(*took, None)
        return stored

    def _settle(self, prompt_tokens: int, completion_tokens: int, why: str | None) -> None:
        self.reserved.settle(prompt_tokens, completion_tokens, why)
        self.gate.limits.took(self.id, prompt_tokens + completion_tokens)
