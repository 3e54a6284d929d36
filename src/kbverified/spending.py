"""What was spent on answers, counted from the store, and a budget that holds over runs and between processes.

``spending.jsonl`` beside the answers: a line before each request with the most that it may take, and a line after it
with what it took. The budget is looked at and the first line is written under one lock. A request whose second line is
missing and whose process is dead counts in full: it may have been billed. An answer without lines (copied from
elsewhere) is counted when it is met. Deleting the file forgets requests that brought no answer, nothing else.
"""

from __future__ import annotations

import json
import os
import random
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kbverified import file_lock
from kbverified.endpoint_settings import EndpointFault, EndpointSettings
from kbverified.response_store import StoredResponse, load

POLL_S = 0.2
ANSWER = "answer"


class BudgetExceeded(EndpointFault):
    """Nothing was asked: it might have cost more than there is."""


@dataclass
class Taken:
    """Tokens of some requests."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def add(self, prompt_tokens: int, completion_tokens: int) -> None:
        self.requests += 1
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += completion_tokens

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass
class Spent:
    """All that a folder's answers took."""

    answers: Taken = field(default_factory=Taken)
    lost: Taken = field(default_factory=Taken)
    """Requests that brought nothing to keep and may have been billed."""
    under_way: Taken = field(default_factory=Taken)
    """The most that requests of living processes may take."""
    by_key: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Prompt and completion tokens of each answer."""

    def total(self, with_under_way: bool = True) -> tuple[int, int]:
        """Prompt and completion tokens."""
        parts = [self.answers, self.lost, *([self.under_way] if with_under_way else [])]
        return sum(one.prompt_tokens for one in parts), sum(one.completion_tokens for one in parts)


class Charge:
    """A request that was written down, and is to be settled."""

    def __init__(self, spending: Spending, turn: str):
        self._spending = spending
        self._turn = turn

    def settle(self, prompt_tokens: int, completion_tokens: int, why: str | None) -> None:
        self._spending._settle(self._turn, prompt_tokens, completion_tokens, why)


class Spending:
    """What the answers in a folder took. ``key`` is that of the answer this process asks for, whose lock it holds."""

    def __init__(self, folder: Path, client: EndpointSettings, key: str = "", name: str = ""):
        self._folder = folder
        self._client = client
        self._key = key
        self._name = name
        self._path = folder / "spending.jsonl"
        self._lock = folder / "locks" / "spending.lock"

    def spent(self, look_only: bool = False) -> Spent:
        """All so far; ``look_only``: without a lock, and nothing is written. Raises OSError, RecordError."""
        if look_only:
            return self._spent(look_only=True)
        with file_lock.held(self._lock):
            return self._spent()

    def reserve(self, prompt_tokens: int, completion_tokens: int | None) -> Charge:
        """Write down a request that is about to be sent.

        Where it fits only without what others have under way, wait for them: they mostly take less. Raises
        BudgetExceeded, OSError.
        """
        deadline = time.monotonic() + self._client.timeout_s
        most = prompt_tokens, completion_tokens or 0
        while True:
            with file_lock.held(self._lock):
                spent = self._spent() if self._limited else None
                if spent is None or not self._over(spent, most):
                    turn = uuid.uuid4().hex
                    self._append({"event": "asked", "key": self._key, "turn": turn, **_tokens(*most)})
                    return Charge(self, turn)
            if self._over(spent, most, with_under_way=False) or time.monotonic() > deadline:
                raise BudgetExceeded(self._words(spent, most))
            time.sleep(POLL_S * random.uniform(0.8, 1.2))

    def bury(self) -> None:
        """Give up what a dead process had under way for this key: while its lock is held others take that for alive."""
        if not self._limited:
            return
        with file_lock.held(self._lock):
            _, left = self._turns()
            for turn, line in left.items():
                if line["key"] == self._key:
                    self._took(self._key, turn, line["prompt_tokens"], line["completion_tokens"], "its process died")

    @property
    def _limited(self) -> bool:
        return self._client.budget_tokens is not None or self._client.budget_usd is not None

    def _over(self, spent: Spent, most: tuple[int, int], with_under_way: bool = True) -> str | None:
        """The limit that would be exceeded."""
        before = spent.total(with_under_way)
        prompt, completion = before[0] + most[0], before[1] + most[1]
        client = self._client
        if client.budget_tokens is not None and prompt + completion > client.budget_tokens:
            return "budget_tokens"
        if client.budget_usd is not None and (client.usd(prompt, completion) or 0.0) > client.budget_usd:
            return "budget_usd"
        return None

    def _words(self, spent: Spent, most: tuple[int, int]) -> str:
        limit = self._over(spent, most) or ""

        def amount(prompt: int, completion: int) -> str:
            if limit == "budget_usd":
                return f"{self._client.usd(prompt, completion) or 0.0:.4f} USD"
            return f"{prompt + completion} tokens"

        parts = [
            f"{what} {amount(one.prompt_tokens, one.completion_tokens)}"
            for what, one in (
                (f"{spent.answers.requests} answers", spent.answers),
                (f"{spent.lost.requests} requests that brought none and may have been billed", spent.lost),
                (f"{spent.under_way.requests} under way", spent.under_way),
            )
            if one.requests
        ]
        return (
            f"{self._name}: not asked: {limit} is {getattr(self._client, limit)}, spent are {amount(*spent.total())} "
            f"({', '.join(parts) or 'nothing yet'}), and this one may take {amount(*most)} ({most[0]} prompt and up to "
            f"{most[1]} completion tokens). Raise {limit}, or lower samples or max_tokens, and run again."
        )

    def _settle(self, turn: str, prompt_tokens: int, completion_tokens: int, why: str | None) -> None:
        with file_lock.held(self._lock):
            self._took(self._key, turn, prompt_tokens, completion_tokens, why or ANSWER)

    def _took(self, key: str, turn: str, prompt_tokens: int, completion_tokens: int, what: str) -> None:
        took = _tokens(prompt_tokens, completion_tokens)
        self._append({"event": "took", "key": key, "turn": turn, **took, "for": what})

    def _turns(self) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
        """The lines of turns that ended, and by their ids those of turns that did not."""
        ended: dict[tuple[str, str], dict[str, Any]] = {}
        left: dict[str, dict[str, Any]] = {}
        for line in self._lines():
            if line["event"] == "asked":
                left[line["turn"]] = line
            else:
                left.pop(line["turn"], None)
                # Twice where another process found the answer before this one's own line was written.
                ended.setdefault((line["key"], line["turn"]), line)
        return list(ended.values()), left

    def _spent(self, look_only: bool = False) -> Spent:
        spent = Spent()
        ended, left = self._turns()
        for line in ended:
            took = line["prompt_tokens"], line["completion_tokens"]
            if line["for"] == ANSWER:
                spent.by_key[line["key"]] = took
                spent.answers.add(*took)
            elif any(took):
                spent.lost.add(*took)
        unwritten = _stored_keys(self._folder) - spent.by_key.keys()
        # Stored, and ended before it was written down: counted below, in place of the key's last turn.
        kept = {line["key"]: turn for turn, line in left.items() if line["key"] in unwritten}
        for turn in kept.values():
            del left[turn]
        for line in left.values():
            alive = line["key"] != self._key and file_lock.is_held(key_lock(self._folder, line["key"]))
            (spent.under_way if alive else spent.lost).add(line["prompt_tokens"], line["completion_tokens"])
        for key in sorted(unwritten):
            response = load(self._folder / f"{key}.json")
            spent.by_key[key] = took = counted(response) if response else (0, 0)
            spent.answers.add(*took)
            if not look_only:  # the next time it need not be read
                self._took(key, kept.get(key, "found"), *took, ANSWER)
        return spent

    def _lines(self) -> Iterator[dict[str, Any]]:
        try:
            text = self._path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return
        for line in text.splitlines():
            try:
                value = json.loads(line)
                took = _tokens(int(value["prompt_tokens"]), int(value["completion_tokens"]))
                names = {name: str(value[name]) for name in ("event", "key", "turn")}
                yield {**names, "for": value.get("for"), **took}
            except (ValueError, KeyError, TypeError, AttributeError):  # cut by a crash of the machine
                continue

    def _append(self, line: dict[str, Any]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        data = json.dumps({"at": datetime.now(UTC).isoformat(timespec="seconds"), **line}) + "\n"
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                data = "\n" + data
            os.write(fd, data.encode())
            os.fsync(fd)
        finally:
            os.close(fd)


def counted(response: StoredResponse) -> tuple[int, int]:
    """Prompt and completion tokens of a stored answer as the budget counts them."""
    prompt, completion = response.counted_prompt_tokens, response.counted_completion_tokens
    return (
        prompt if prompt is not None else response.prompt_tokens or 0,
        completion if completion is not None else response.completion_tokens or 0,
    )


def key_lock(folder: Path, key: str) -> Path:
    """The lock that a process holds while it asks for an answer."""
    return folder / "locks" / f"{key}.lock"


def _stored_keys(folder: Path) -> set[str]:
    if not folder.is_dir():
        return set()
    return {name.removesuffix(".json") for name in os.listdir(folder) if name.endswith(".json")}


def _tokens(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    return {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
