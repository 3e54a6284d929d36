"""Limits on requests that hold across processes: how many at once, how many and how many tokens a minute.

One folder is one set of limits. At once: as many lock files as requests may run, each request holds one. A minute: a
file with what was sent in the last one, changed under a lock. A dead process holds nothing. Times are the machines'
own clocks: on a cluster they have to agree to a second or so.
"""

from __future__ import annotations

import contextlib
import json
import random
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kbverified import file_lock
from kbverified.endpoint_settings import EndpointFault, EndpointSettings
from kbverified.records.files import write_text

WINDOW_S = 61.0
"""A minute, and one second for a request on its way: the server counts when it arrives."""
POLL_S = 0.1
POLL_MAX_S = 2.0


@dataclass
class _Sent:
    at: float
    turn: str
    tokens: int


@dataclass
class _Window:
    paused_until: float
    sent: list[_Sent]


class RequestLimits:
    """The limits of some settings, kept in a folder. ``name`` is who waits, for errors."""

    def __init__(self, folder: Path, client: EndpointSettings, name: str):
        self._folder = folder
        self._client = client
        self._name = name

    @contextlib.contextmanager
    def turn(self, expected_tokens: int) -> Iterator[str]:
        """Wait until one more request may be sent; the id of this turn. Raises EndpointFault, OSError."""
        deadline = time.monotonic() + self._client.timeout_s
        slot = self._slot(deadline)
        try:
            yield self._enter_window(expected_tokens, deadline)
        finally:
            if slot is not None:
                slot.close()

    def pause(self, seconds: float) -> None:
        """Nobody sends anything for so long."""
        with self._changed() as window:
            window.paused_until = max(window.paused_until, time.time() + seconds)

    def took(self, turn: str, tokens: int) -> None:
        """What a request really took, in place of what was expected."""
        if self._client.tokens_per_minute is None:
            return
        with self._changed() as window:
            for sent in window.sent:
                if sent.turn == turn:
                    sent.tokens = tokens

    def _slot(self, deadline: float) -> file_lock.Held | None:
        places = list(range(self._client.concurrency or 0))
        while places:
            random.shuffle(places)  # or all who come at once try the same first
            for place in places:
                slot = file_lock.take_if_free(self._folder / f"slot-{place}.lock")
                if slot is not None:
                    return slot
            self._sleep(POLL_S, deadline, f"concurrency {self._client.concurrency}")
        return None

    def _enter_window(self, expected_tokens: int, deadline: float) -> str:
        turn = uuid.uuid4().hex
        while True:
            with self._changed() as window:
                wait_s, why = self._wait_s(window, expected_tokens)
                if wait_s <= 0:
                    if self._client.requests_per_minute or self._client.tokens_per_minute:
                        window.sent.append(_Sent(time.time(), turn, expected_tokens))
                    return turn
            if wait_s > max(0.0, deadline - time.monotonic()):
                raise EndpointFault(f"{self._name}: not asked: no turn within {self._client.timeout_s:.0f} s, as {why}")
            self._sleep(wait_s, deadline, why)

    def _wait_s(self, window: _Window, expected_tokens: int) -> tuple[float, str]:
        """How long until there may be room, and what is in the way."""
        now, sent = time.time(), window.sent
        if window.paused_until > now:
            left = window.paused_until - now
            return left, f"the endpoint wants to be left alone for another {left:.0f} s"
        requests, tokens = self._client.requests_per_minute, self._client.tokens_per_minute
        if requests is not None and len(sent) >= requests:
            return sent[-requests].at + WINDOW_S - now, f"requests_per_minute is {requests}"
        # What alone is more than a minute's tokens is sent alone, or it would never be.
        if tokens is not None and sent and sum(one.tokens for one in sent) + expected_tokens > tokens:
            return sent[0].at + WINDOW_S - now, f"tokens_per_minute is {tokens}"
        return 0.0, ""

    def _sleep(self, seconds: float, deadline: float, why: str) -> None:
        if time.monotonic() > deadline:
            raise EndpointFault(
                f"{self._name}: not asked: no turn within {self._client.timeout_s:.0f} s under {why}. Start fewer jobs "
                "at once (--resources api_calls=N), or raise it."
            )
        time.sleep(min(seconds, POLL_MAX_S) * random.uniform(0.8, 1.2))

    @contextlib.contextmanager
    def _changed(self) -> Iterator[_Window]:
        """The last minute, written back where it was changed."""
        path = self._folder / "window.json"
        with file_lock.held(self._folder / "window.lock"):
            window = _read(path)
            before = _text(window)
            yield window
            if _text(window) != before:
                write_text(path, _text(window))


def _read(path: Path) -> _Window:
    """Empty where there is none, or one that a crash of the machine has left: a minute later it is right again."""
    now = time.time()
    try:
        value = json.loads(path.read_text())
        sent = [_Sent(float(at), str(turn), int(tokens)) for at, turn, tokens in value["sent"]]
        paused_until = float(value["paused_until"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return _Window(0.0, [])
    # Later than now: the clock was set back.
    sent = [one for one in sent if now - WINDOW_S < one.at <= now + WINDOW_S]
    return _Window(paused_until if paused_until < now + 86400 else 0.0, sorted(sent, key=lambda one: one.at))


def _text(window: _Window) -> str:
    return json.dumps(
        {"paused_until": window.paused_until, "sent": [[one.at, one.turn, one.tokens] for one in window.sent]}
    )
