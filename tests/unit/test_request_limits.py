"""Limits that hold between processes, and the locks that they are made of."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kbverified import file_lock, request_limits
from kbverified.endpoint_settings import EndpointFault, EndpointSettings
from kbverified.request_limits import RequestLimits


def limits(folder: Path, **given: Any) -> RequestLimits:
    return RequestLimits(folder, EndpointSettings.model_validate(given), "who")


# Holds a turn for a while, and says from when to when on one clock of all processes.
HOLDER = """
import sys, time
from pathlib import Path
from kbverified.endpoint_settings import EndpointSettings
from kbverified.request_limits import RequestLimits
with RequestLimits(Path(sys.argv[1]), EndpointSettings(concurrency=2), "who").turn(0):
    began = time.monotonic()
    print("began", flush=True)
    time.sleep(float(sys.argv[2]))
    print(began, time.monotonic(), flush=True)
"""


def start(folder: Path, hold_s: float) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", HOLDER, folder, str(hold_s)], stdout=subprocess.PIPE, text=True)


def test_concurrency_holds_between_processes(tmp_path: Path) -> None:
    running = [start(tmp_path, 0.3) for _ in range(5)]
    spans = [tuple(map(float, process.communicate(timeout=60)[0].splitlines()[-1].split())) for process in running]
    assert max(sum(a <= began < b for a, b in spans) for began, _ in spans) == 2


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    running = [start(tmp_path, 60) for _ in range(2)]
    for process in running:
        assert process.stdout is not None and process.stdout.readline() == "began\n"
    third = limits(tmp_path, concurrency=2, timeout_s=0.3)
    with pytest.raises(EndpointFault, match="who: not asked: no turn within 0 s under concurrency 2"), third.turn(0):
        pass
    running[0].kill()
    running[0].communicate()
    with limits(tmp_path, concurrency=2, timeout_s=10).turn(0):
        pass
    running[1].kill()
    running[1].communicate()


def admitted(folder: Path, count: int, tokens: int = 0, **given: Any) -> list[float]:
    """When each of ``count`` at once got its turn."""

    def one(_: int) -> float:
        with limits(folder, timeout_s=30, **given).turn(tokens):
            return time.time()

    with ThreadPoolExecutor(count) as all_at_once:
        return sorted(all_at_once.map(one, range(count)))


def most_within(times: list[float], seconds: float) -> int:
    return max(sum(begin <= at < begin + seconds for at in times) for begin in times)


def test_requests_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits, "WINDOW_S", 0.6)
    times = admitted(tmp_path, 5, requests_per_minute=2)
    assert most_within(times, 0.55) == 2
    assert 1.2 <= times[-1] - times[0] < 3


def test_tokens_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits, "WINDOW_S", 0.6)
    assert most_within(admitted(tmp_path / "a", 4, 40, tokens_per_minute=100), 0.55) == 2
    # What alone is too much is sent alone.
    assert most_within(admitted(tmp_path / "b", 2, 500, tokens_per_minute=100), 0.55) == 1


def test_what_was_taken_replaces_what_was_expected(tmp_path: Path) -> None:
    one = limits(tmp_path, tokens_per_minute=100, timeout_s=0.2)
    with one.turn(90) as turn:
        one.took(turn, 10)
    with one.turn(90):
        pass
    with pytest.raises(EndpointFault, match="tokens_per_minute is 100"), one.turn(1):
        pass


def test_a_pause_is_everybodys(tmp_path: Path) -> None:
    limits(tmp_path).pause(0.4)
    began = time.monotonic()
    with limits(tmp_path, timeout_s=5).turn(0):
        assert 0.35 <= time.monotonic() - began < 2
    limits(tmp_path).pause(3600)
    began = time.monotonic()
    with pytest.raises(EndpointFault, match=r"left alone for another 3[56]\d\d s"), limits(tmp_path).turn(0):
        pass
    assert time.monotonic() - began < 1  # longer than it would wait: it says so at once


@pytest.mark.parametrize("left", ["", "{", '{"paused_until": 0}', '{"paused_until": 9e99, "sent": [[1e12, "x", 1]]}'])
def test_a_broken_or_future_window_is_an_empty_one(tmp_path: Path, left: str) -> None:
    (tmp_path / "window.json").write_text(left)
    with limits(tmp_path, requests_per_minute=1, timeout_s=0.2).turn(0):
        pass


# --- locks --------------------------------------------------------------------------------------------------


def test_a_removed_lock_lets_only_one_at_a_time_in(tmp_path: Path) -> None:
    """Whoever waited for a file that is gone takes its successor."""
    path, inside, most = tmp_path / "a.lock", 0, 0
    guard = threading.Lock()

    def enter(number: int) -> None:
        nonlocal inside, most
        with file_lock.held(path) as lock:
            with guard:
                inside += 1
                most = max(most, inside)
            time.sleep(0.01)
            with guard:
                inside -= 1
            if number % 2:
                lock.remove()

    with ThreadPoolExecutor(8) as many:
        list(many.map(enter, range(16)))
    assert most == 1


MOUNTS = """\
20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 20 0:40 / /data rw,relatime - nfs4 server:/export rw,vers=4.2,local_lock=none,addr=10.0.0.1
31 20 0:41 / /data/old rw,relatime - nfs server:/old rw,vers=3,nolock,local_lock=all,addr=10.0.0.1
32 20 0:42 / /scratch rw,relatime - lustre 10.0.0.1@o2ib:/fs rw,lazystatfs
33 20 0:43 / /work rw,relatime - lustre 10.0.0.1@o2ib:/fs rw,flock,lazystatfs
"""


@pytest.mark.parametrize(
    ("folder", "why"),
    [
        ("/home/me", None),
        ("/data/project", None),
        ("/database", None),
        ("/data/old/project", "nfs, nolock"),
        ("/scratch/me", "lustre, without flock"),
        ("/work/me", None),
    ],
)
def test_locks_that_end_at_the_machine_are_told(tmp_path: Path, folder: str, why: str | None) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTS)
    assert file_lock.local_only(Path(folder), tmp_path / "mountinfo") == why
