"""What was paid for is paid once and counted, whatever ends in the middle; a budget holds."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from endpoint_server import Answer, EndpointServer, completion, error, serve

from kbverified import endpoint, file_lock
from kbverified.endpoint_settings import ClientSettings, EndpointFault
from kbverified.paid_answers import Obtained, obtain
from kbverified.response_store import ROOM_BYTES
from kbverified.spending import BudgetExceeded, Charge, Spending, Spent, key_lock

MESSAGES = [{"role": "user", "content": "word " * 6}]
PROMPT_ESTIMATE = 20  # 4 bytes of role and 30 of text, three a token: 12, and 8 for the message


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EndpointServer]:
    monkeypatch.setattr(endpoint, "BACKOFF_S", 0.01)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve(completion("x = 1\n", usage=(10, 90))) as started:
        yield started


def settings(url: str, **more: Any) -> ClientSettings:
    return ClientSettings.model_validate(
        {"model": "some-model", "base_url": url, "max_tokens": 100, "retries": 2, **more}
    )


def get(server: EndpointServer, folder: Path, name: str = "a", **more: Any) -> Obtained:
    return obtain(settings(server.url, **more), MESSAGES, name=name, folder=folder)


def spent(folder: Path) -> Spent:
    return Spending(folder, settings("http://host/v1")).spent()


ASKER = """
import sys
from pathlib import Path
from kbverified.endpoint_settings import ClientSettings
from kbverified.paid_answers import obtain
client = ClientSettings(model="some-model", base_url=sys.argv[1], max_tokens=100, retries=0)
messages = [{"role": "user", "content": "word " * 6}]
print(obtain(client, messages, name="a", folder=Path(sys.argv[2])).did)
"""


def start(server: EndpointServer, folder: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", ASKER, server.url, str(folder)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_an_answer_is_kept_though_nothing_can_be_written_about_it(
    server: EndpointServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fills while the answer is awaited: the room for it is there, and the ledger's line is not."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("kbverified.spending.Charge.settle", full)
        assert get(server, tmp_path, budget_tokens=1000).did == "asked"
    assert get(server, tmp_path, budget_tokens=1000).did == "replayed"
    assert len(server.requests) == 1
    assert spent(tmp_path).total() == (10, 90)


DIES_STORING = """
import os, sys
from kbverified import paid_answers
keep = paid_answers.append
def append(path, answer):
    keep(path, answer)
    os._exit(9)
paid_answers.append = append
"""
DIES_SETTLING = """
import os, sys
from kbverified.spending import Charge
settle = Charge.settle
def dying(self, *took):
    settle(self, *took)
    os._exit(9)
Charge.settle = dying
"""


@pytest.mark.parametrize("before", [DIES_STORING, DIES_SETTLING])
def test_who_dies_between_an_answer_and_its_line_has_paid_once(server, tmp_path: Path, before: str) -> None:
    words = [sys.executable, "-c", before + ASKER, server.url, str(tmp_path)]
    assert subprocess.run(words, check=False).returncode == 9
    assert get(server, tmp_path, budget_tokens=1000).did == "replayed"
    assert len(server.requests) == 1
    for _ in range(2):  # the first look writes down what it found
        now = spent(tmp_path)
        assert (now.total(), now.lost.requests, now.under_way.requests) == ((10, 90), 0, 0)


def test_an_answer_that_another_process_finds_before_its_line_counts_once(
    server: EndpointServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle, found = Charge.settle, []

    def look_first(self: Charge, *took: Any) -> None:
        found.append(spent(tmp_path).total())
        settle(self, *took)

    monkeypatch.setattr(Charge, "settle", look_first)
    get(server, tmp_path, budget_tokens=1000)
    assert found == [(10, 90)] and spent(tmp_path).total() == (10, 90)


def test_an_answer_that_cannot_be_stored_is_on_the_bill(
    server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("kbverified.paid_answers.append", full)
        with pytest.raises(OSError, match="No space left"):
            get(server, tmp_path)
    now = spent(tmp_path)
    assert (now.answers.requests, now.lost.requests, now.lost.tokens) == (0, 1, 100)


# --- once ---------------------------------------------------------------------------------------------------


def test_processes_that_want_one_answer_pay_for_one(server: EndpointServer, tmp_path: Path) -> None:
    server.answers = [completion("x = 1\n", wait_s=1.5)]
    running = [start(server, tmp_path) for _ in range(3)]
    assert sorted(process.communicate(timeout=60)[0].strip() for process in running) == [
        "asked",
        "replayed",
        "replayed",
    ]
    assert len(server.requests) == 1
    assert not list((tmp_path / "locks").glob("[0-9a-f]*.lock"))


def test_a_killed_process_leaves_its_question_to_the_next_and_its_cost_on_the_bill(server, tmp_path: Path) -> None:
    server.answers = [completion("x = 1\n", wait_s=30), completion("x = 2\n", usage=(10, 90))]
    process = start(server, tmp_path)
    while not server.requests:
        time.sleep(0.02)
    now = spent(tmp_path)
    assert (now.under_way.requests, now.under_way.tokens, now.lost.requests) == (1, PROMPT_ESTIMATE + 100, 0)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert get(server, tmp_path).response.content == "x = 2\n"
    now = spent(tmp_path)
    assert (now.answers.tokens, now.lost.requests, now.lost.tokens) == (100, 1, PROMPT_ESTIMATE + 100)


def test_another_name_prompt_setting_or_format_is_another_question(server: EndpointServer, tmp_path: Path) -> None:
    client, ask = settings(server.url), lambda *a, **k: obtain(*a, folder=tmp_path, **k).did
    assert ask(client, MESSAGES, name="a") == "asked"
    assert ask(client, MESSAGES, name="a") == "replayed"
    assert ask(client, MESSAGES, name="b") == "asked"
    assert ask(client, MESSAGES, {"type": "json_object"}, name="a") == "asked"
    assert ask(client, [*MESSAGES, *MESSAGES], name="a") == "asked"
    assert ask(settings(server.url, top_p=0.5), MESSAGES, name="a") == "asked"
    # What does not change the question: where it is asked, how the answer comes, limits.
    moved = settings("http://127.0.0.1:9/v1", stream=True, concurrency=3, budget_tokens=0, timeout_s=1, retries=0)
    assert ask(moved, MESSAGES, name="a") == "replayed"
    assert len(server.requests) == 5


# --- what it took -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "lost"),
    [
        (error(429, "slow down"), 0),
        (error(500, "on fire"), 0),
        (completion("x" * 300, cut_after=200), PROMPT_ESTIMATE + 100),  # it may have been billed as far as max_tokens
        (Answer({"id": "1", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}), 10),
    ],
)
def test_requests_that_bring_nothing_are_counted_where_they_may_be_billed(server, tmp_path, fault, lost: int) -> None:
    server.answers = [fault, completion("x = 1\n", usage=(10, 90))]
    get(server, tmp_path)
    now = spent(tmp_path)
    assert (now.answers.tokens, now.lost.tokens, now.under_way.tokens) == (100, lost, 0)


def test_a_timeout_is_counted_and_no_connection_is_not(server: EndpointServer, tmp_path: Path) -> None:
    server.answers = [completion("x = 1\n", wait_s=1)]
    with pytest.raises(EndpointFault):
        get(server, tmp_path, timeout_s=0.2, retries=0)
    assert spent(tmp_path).lost.tokens == PROMPT_ESTIMATE + 100
    with pytest.raises(EndpointFault):
        obtain(settings("http://127.0.0.1:9/v1", retries=0), MESSAGES, name="a", folder=tmp_path)
    assert spent(tmp_path).lost.tokens == PROMPT_ESTIMATE + 100


def test_an_answer_from_elsewhere_and_a_lost_ledger_are_counted(server: EndpointServer, tmp_path: Path) -> None:
    get(server, tmp_path)
    ledger = tmp_path / "spending.jsonl"
    ledger.unlink()
    look = Spending(tmp_path, settings(server.url)).spent(look_only=True)
    assert (look.answers.requests, look.answers.tokens, ledger.exists()) == (1, 100, False)
    assert (spent(tmp_path).answers.tokens, ledger.exists()) == (100, True)
    # Written with a version that counted nothing.
    (path,) = tmp_path.glob("*.json")
    old = json.loads(path.read_text())
    for name in ("counted_prompt_tokens", "counted_completion_tokens", "request", "note", "attempts"):
        del old[name]
    (tmp_path / f"{'0' * 64}.json").write_text(json.dumps({**old, "completion_tokens": None}))
    assert spent(tmp_path).answers.tokens == 110


def test_a_line_that_was_cut_costs_no_other(server: EndpointServer, tmp_path: Path) -> None:
    get(server, tmp_path)
    with open(tmp_path / "spending.jsonl", "a") as file:
        file.write('{"event": "took", "key": "f00", "prompt_t')
    Spending(tmp_path, settings(server.url), "k").reserve(1, 2)  # the next line begins anew
    get(server, tmp_path, "b")
    now = spent(tmp_path)
    assert (now.answers.requests, now.answers.tokens, now.lost.tokens) == (2, 200, 3)


# --- budgets ------------------------------------------------------------------------------------------------


def test_nothing_is_asked_that_might_exceed_the_budget(server: EndpointServer, tmp_path: Path) -> None:
    """100 tokens an answer; the next may take 120: the third would end at 320."""
    get(server, tmp_path, "a", budget_tokens=319)
    get(server, tmp_path, "b", budget_tokens=319)
    with pytest.raises(BudgetExceeded) as caught:
        get(server, tmp_path, "c", budget_tokens=319)
    assert str(caught.value) == (
        "c: not asked: budget_tokens is 319, spent are 200 tokens (2 answers 200 tokens), and this one may take 120 "
        "tokens (20 prompt and up to 100 completion tokens). Raise budget_tokens, or lower samples or max_tokens, and "
        "run again."
    )
    assert len(server.requests) == 2
    assert get(server, tmp_path, "b", budget_tokens=0).did == "replayed"
    assert get(server, tmp_path, "c", budget_tokens=320).did == "asked"


def test_a_budget_in_money(server: EndpointServer, tmp_path: Path) -> None:
    """10 prompt and 90 completion tokens: 10 * 0.5 + 90 * 2 = 185 millionths; the next at most 20 * 0.5 + 200 = 210."""
    prices = {"usd_per_million_prompt_tokens": 0.5, "usd_per_million_completion_tokens": 2}
    get(server, tmp_path, "a", budget_usd=394e-6, **prices)
    with pytest.raises(BudgetExceeded, match=r"budget_usd is 0\.000394, spent are 0\.0002 USD \(1 answers"):
        get(server, tmp_path, "b", budget_usd=394e-6, **prices)
    assert get(server, tmp_path, "b", budget_usd=396e-6, **prices).did == "asked"


def test_retries_need_a_budget_too(server: EndpointServer, tmp_path: Path) -> None:
    server.answers = [completion("x" * 300, cut_after=200)]
    with pytest.raises(BudgetExceeded, match="1 requests that brought none and may have been billed 120 tokens"):
        get(server, tmp_path, budget_tokens=239, retries=9)
    assert len(server.requests) == 1


RACER = """
import sys, time
from pathlib import Path
from kbverified import file_lock
from kbverified.endpoint_settings import EndpointSettings
from kbverified.spending import BudgetExceeded, Spending, key_lock
folder, key = Path(sys.argv[1]), sys.argv[2]
client = EndpointSettings(max_tokens=100, budget_tokens=300, timeout_s=1)
with file_lock.held(key_lock(folder, key)):
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        Spending(folder, client, key, key).reserve(0, 100)
        print("reserved", flush=True)
        time.sleep(4)
    except BudgetExceeded:
        print("refused", flush=True)
"""


def test_processes_that_come_at_once_share_one_budget(tmp_path: Path) -> None:
    words = [sys.executable, "-c", RACER, str(tmp_path)]
    running = [
        subprocess.Popen([*words, f"k{n}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for n in range(6)
    ]
    for process in running:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = [process.communicate(timeout=60)[0].strip() for process in running]
    assert sorted(said) == ["refused"] * 3 + ["reserved"] * 3
    # They ended without a word of what it took: that may be everything.
    assert spent(tmp_path).lost.tokens == 300


def test_what_is_under_way_is_waited_for(server: EndpointServer, tmp_path: Path) -> None:
    """Two may take 120 each, and 210 are there: the second is asked when the first has taken 100, and not refused."""
    server.answers = [completion("x = 1\n", usage=(10, 80), wait_s=0.5)]
    began = time.monotonic()
    with ThreadPoolExecutor(2) as both:
        done = list(both.map(lambda name: get(server, tmp_path, name, budget_tokens=210).did, "ab"))
    assert done == ["asked", "asked"] and server.at_once_max == 1
    assert time.monotonic() - began >= 1


def test_who_holds_a_question_is_alive(tmp_path: Path) -> None:
    Spending(tmp_path, settings("http://host/v1"), "k").reserve(1, 2)
    assert (spent(tmp_path).under_way.requests, spent(tmp_path).lost.requests) == (0, 1)
    with file_lock.held(key_lock(tmp_path, "k")):
        assert (spent(tmp_path).under_way.requests, spent(tmp_path).lost.requests) == (1, 0)
        # Its own earlier request of which nothing is known is not under way: it is the one who asks.
        own = Spending(tmp_path, settings("http://host/v1"), "k").spent()
        assert (own.under_way.requests, own.lost.requests) == (0, 1)


# --- limits -------------------------------------------------------------------------------------------------


def test_every_try_is_a_request_within_the_limits(server: EndpointServer, tmp_path: Path) -> None:
    server.answers = [error(500, "on fire")]
    with pytest.raises(EndpointFault, match="not asked: no turn within 2 s, as requests_per_minute is 2"):
        get(server, tmp_path, requests_per_minute=2, retries=9, timeout_s=2)
    assert len(server.requests) == 2


def test_requests_at_once(server: EndpointServer, tmp_path: Path) -> None:
    server.answers = [completion("x = 1\n", wait_s=0.2)]
    with ThreadPoolExecutor(5) as many:
        assert list(many.map(lambda n: get(server, tmp_path, str(n), concurrency=2).did, range(5))) == ["asked"] * 5
    assert server.at_once_max == 2


def test_what_an_answer_took_is_what_counts_of_its_minute(server: EndpointServer, tmp_path: Path) -> None:
    """120 are expected of each, 100 are taken: two in a minute are 220 when the second is asked for, not 240."""
    for name in "ab":
        assert get(server, tmp_path, name, tokens_per_minute=225, timeout_s=2).did == "asked"
    with pytest.raises(EndpointFault, match="tokens_per_minute is 225"):
        get(server, tmp_path, "c", tokens_per_minute=225, timeout_s=2)


def test_one_that_is_told_to_wait_tells_the_others(server: EndpointServer, tmp_path: Path) -> None:
    server.answers = [error(429, "slow down", {"retry-after-ms": "800"}), completion("x = 1\n")]
    first = threading.Thread(target=get, args=(server, tmp_path, "a"))
    first.start()
    paused = tmp_path / "limits" / "window.json"
    until = time.monotonic() + 10
    while not paused.exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    get(server, tmp_path, "b")
    first.join()
    assert len(server.times) == 3
    assert all(at - server.times[0] >= 0.75 for at in server.times[1:])


def test_the_room_for_an_answer_is_held_while_it_is_asked_for(server: EndpointServer, tmp_path: Path) -> None:
    held: list[int] = []

    def look(_: object) -> Answer:
        held.extend(path.stat().st_blocks * 512 for path in tmp_path.glob(".incoming-*"))
        return completion("x = 1\n")

    server.choose = look
    get(server, tmp_path)
    assert len(held) == 1 and held[0] >= ROOM_BYTES
    assert not list(tmp_path.glob(".incoming-*"))


def test_an_answer_is_kept_though_its_room_is_gone(server: EndpointServer, tmp_path: Path, monkeypatch) -> None:
    """As where another machine, on which locks do not hold, takes it for a dead process's."""
    ask = endpoint.send

    def swept(*sent: Any) -> Any:
        (room,) = tmp_path.glob(".incoming-*")
        room.unlink()
        return ask(*sent)

    monkeypatch.setattr(endpoint, "send", swept)
    assert get(server, tmp_path).response.content == "x = 1\n"
    assert get(server, tmp_path).did == "replayed" and len(server.requests) == 1


def test_a_store_that_cannot_be_written_costs_nothing(server: EndpointServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where a folder should be")
    with pytest.raises(OSError, match="file"):
        get(server, tmp_path / "file")
    assert server.requests == []
