"""The machine's clock is put forward and back by an hour: no time, limit, lease or cache may follow it.

Limits, leases and times are of ``time.monotonic`` and ``perf_counter``, which nobody sets. What asks for the time of
day, or compares it with a file's, is listed here with what a jump does to it.
"""

from __future__ import annotations

import ast
import datetime
import os
import statistics
import time
from pathlib import Path

import pytest
from stage_places import HONEST, Place
from test_evaluator import comparable

from benchmarks.left_behind import Watch
from kbverified.compilation import cache, slim_tree

SOURCE = Path(__file__).parents[2] / "src/kbverified"
HOUR_S = 3600.0

ASKS = {
    ("stages.py", "now"): "started_at, provenance; of two records of one candidate merging keeps the later by it",
    ("device_run.py", "now"): "started_at of a report; its durations are monotonic",
    ("endpoint.py", "now"): "received_at of a response, provenance",
    ("run_report.py", "now"): "ended_at of a report",
    ("run_state.py", "time"): "mtime of restored records: never older than their sources, whatever the clock says",
    ("run_state.py", "st_mtime"): "the same",
    ("spending.py", "now"): "when a line was written, provenance",
    ("endpoint_http.py", "time"): "seconds to a date that an endpoint named: off by the jump",
    ("request_limits.py", "time"): "requests of the last minute, for several machines: those more than a minute in the "
    "future are forgotten; a pause an endpoint asked for lasts as much longer as the clock was put back, up to a day, "
    "and requests meanwhile are faults that are tried again",
    ("llm_judges/plan.py", "st_mtime_ns"): "whether a file is another than before, never compared with the clock",
    ("evaluator/key.py", "st_mtime_ns"): "identity of an installed torch, never compared with the clock",
    ("compilation/slim_tree.py", "st_mtime_ns"): "the same",
    ("compilation/slim_tree.py", "time"): "whether a failure was within the hour; one from the future was not",
    ("compilation/slim_tree.py", "st_mtime"): "the same",
    (
        "compilation/cache.py",
        "time",
    ): "ages of builds: after a jump forward more are old enough to go, if there are too "
    "many, and those in use are locked; a sweep from the future was no sweep",
    ("compilation/cache.py", "st_mtime"): "the same",
    (
        "incoming.py",
        "time",
    ): "ages of what was left half written: after a jump forward it goes before ten minutes are over, "
    "unless its writer holds it; one from the future stays",
    ("incoming.py", "st_mtime"): "the same",
}
"""(file, what is asked) to what it decides."""
_OF_THE_CLOCK = {"time", "time_ns", "now", "utcnow", "today", "localtime", "gmtime"}
_OF_FILES = {"st_mtime", "st_mtime_ns", "st_ctime", "getmtime", "getctime"}


def test_who_asks_for_the_time_of_day_is_known() -> None:
    found = set()
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Attribute):
                continue
            owner = node.value.id if isinstance(node.value, ast.Name) else getattr(node.value, "attr", None)
            if node.attr in _OF_FILES or (node.attr in _OF_THE_CLOCK and owner in ("time", "datetime", "date")):
                found.add((path.relative_to(SOURCE).as_posix(), node.attr))
    assert found == set(ASKS), "say in ASKS what a clock that jumps would do there"


# --- files from the future --------------------------------------------------------------------------------------------


def aged(path: Path, age_s: float) -> Path:
    path.touch()
    at = time.time() - age_s
    os.utime(path, (at, at))
    return path


@pytest.mark.parametrize(("age_s", "lately"), [(10.0, True), (2 * HOUR_S, False), (-HOUR_S, False)])
def test_headers_that_could_not_be_made_are_tried_again(tmp_path: Path, age_s: float, lately: bool) -> None:
    assert slim_tree.failed_lately(aged(tmp_path / "failed.log", age_s)) is lately


@pytest.mark.parametrize(("age_s", "sweeps"), [(10.0, False), (HOUR_S, True), (-HOUR_S, True)])
def test_the_cache_is_swept(tmp_path: Path, age_s: float, sweeps: bool) -> None:
    build = tmp_path / "candidates/ab/cdef"
    build.mkdir(parents=True)
    (build / "module.so").write_bytes(bytes(1 << 16))
    aged(build.parent / f"{build.name}.used", 3 * HOUR_S)
    aged(tmp_path / "candidates/.swept", age_s)
    assert cache.sweep(tmp_path, 0, idle_s=HOUR_S) == ([build] if sweeps else [])


def test_what_was_used_in_the_future_is_not_old(tmp_path: Path) -> None:
    build = tmp_path / "candidates/ab/cdef"
    build.mkdir(parents=True)
    (build / "module.so").write_bytes(bytes(1 << 16))
    aged(build.parent / f"{build.name}.used", -HOUR_S)
    assert cache.sweep(tmp_path, 0, idle_s=60.0, every_s=0.0) == []


# --- stages -----------------------------------------------------------------------------------------------------------

# Imported by every interpreter at its start: each look at the clock is an hour off, forward and back in turn.
JUMPS = """
import datetime, itertools, time

_real, _hours = time.time, itertools.cycle((3600.0, -3600.0))
time.time = lambda: _real() + next(_hours)


class _Jumping(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromtimestamp(time.time(), tz)


_fixed = datetime.datetime
_Jumping.fromtimestamp = _fixed.fromtimestamp
datetime.datetime = _Jumping
"""


def test_stages_under_a_clock_that_jumps(place: Place, watch: Watch, tmp_path: Path) -> None:
    """Evaluator, judge and workers have such a clock; the same records come out, with sane times."""
    (tmp_path / "sitecustomize.py").write_text(JUMPS)
    tmp_path.chmod(0o755)  # for the workers, who have another uid
    path = os.pathsep.join([str(tmp_path), place.bench.environment["PYTHONPATH"]])
    item = place.item(HONEST, 0)
    stages = ("compile", "hidden-gate", "time-fp32")
    records = {}
    for clock in (None, path):
        changes = {} if clock is None else {"PYTHONPATH": clock}
        for stage in stages:
            done = place.stage(stage, item, **changes)
            assert done.returncode == 0, done.stderr[-2000:]
            records[stage, clock] = place.record(stage, item)
        assert watch.wait(records=place.records) == []
    for stage in stages:
        assert comparable(records[stage, path]) == comparable(records[stage, None])
        provenance = records[stage, path]["provenance"]
        started = datetime.datetime.fromisoformat(provenance["started_at"])
        off_s = (datetime.datetime.now(datetime.UTC) - started).total_seconds()
        assert 0.9 * HOUR_S < abs(off_s) < 1.1 * HOUR_S, "the clock did jump"
        assert 0 < provenance["duration_s"] < 120
    timed = records["time-fp32", path]
    assert timed["provenance"]["evaluator"] and 0 < timed["provenance"]["device_hold_s"] < 120
    for side in ("baseline_ms", "candidate_ms"):
        every = [value for one in timed["rounds"] for value in one[side]]
        assert every and 0 < min(every) and statistics.median(every) < 1000
