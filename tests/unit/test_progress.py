"""The progress line, from Snakemake's log events; and that it never breaks a run."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from kbverified import progress
from kbverified.progress import Progress


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def shown(clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Progress:
    monkeypatch.chdir(tmp_path)
    return Progress(total=10, stream=io.StringIO(), clock=clock)


def send(target: logging.Handler, event: LogEvent, **fields: Any) -> None:
    record = logging.LogRecord("snakemake.logging", logging.INFO, "", 0, None, None, None)
    record.__dict__.update(event=event, **fields)
    target.emit(record)


def start(target: Progress, job: int, stage: str = "hidden-gate", rule: str = "hidden_gate") -> Path:
    path = Path("results") / stage / "g" / "s" / "level1_1" / f"{job}.json"
    wildcards = {"generator": "g", "suite": "s", "problem": "level1_1", "sample": str(job)}
    send(target, LogEvent.JOB_INFO, jobid=job, rule_name=rule, output=[str(path)], wildcards=wildcards)
    return path


def finish(target: Progress, job: int, record: dict[str, Any], stage: str = "hidden-gate") -> None:
    path = start(target, job, stage)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"stage": stage, **record}))
    send(target, LogEvent.JOB_FINISHED, job_id=job)


def test_the_line_says_what_runs_what_is_left_and_until_when(shown: Progress, clock: Clock) -> None:
    for job in range(3):
        finish(shown, job, {"status": "ok", "verdict": "pass"})
    finish(shown, 3, {"status": "ok", "verdict": "wrong_value"})
    start(shown, 4)
    clock.now = 4 * 30.0
    assert shown.line() == (
        "[0:02:00] 4 of 10 jobs | running hidden_gate g/s/level1_1/4 | verdicts: pass 3, wrong_value 1 "
        "| about 0:03:00 left"
    )


def test_many_running_jobs_are_counted(shown: Progress, clock: Clock) -> None:
    for job in range(5):
        clock.now += 1
        start(shown, job)
    assert "running hidden_gate g/s/level1_1/0, hidden_gate g/s/level1_1/1 +3" in shown.line()


def test_verdicts_of_other_stages_name_them_and_skips_are_counted(shown: Progress) -> None:
    finish(shown, 1, {"status": "ok", "verdict": "syntax_error"}, "compile")
    finish(shown, 2, {"status": "ok", "verdict": "pass"}, "compile")
    finish(shown, 3, {"status": "skipped", "reason": "compile: syntax_error"})
    assert "verdicts: syntax_error in compile 1, stages skipped 1" in shown.line()


def test_a_failure_counts_once_and_not_where_a_retry_helped(shown: Progress) -> None:
    for _ in range(2):
        start(shown, 1)
        send(shown, LogEvent.JOB_ERROR, jobid=1)
    assert "1 FAILED" in shown.line()
    finish(shown, 1, {"status": "ok", "verdict": "pass"})
    assert "FAILED" not in shown.line()


def test_nothing_that_comes_in_can_raise(shown: Progress) -> None:
    send(shown, LogEvent.JOB_FINISHED)
    send(shown, LogEvent.JOB_FINISHED, job_id="x")
    send(shown, LogEvent.JOB_INFO)
    path = start(shown, 1)
    path.parent.mkdir(parents=True)
    path.write_text("{")
    send(shown, LogEvent.JOB_FINISHED, job_id=1)
    assert "1 of 10" in shown.line()


def test_a_closed_stream_does_not_raise() -> None:
    stream = io.StringIO()
    stream.close()
    Progress(total=1, stream=stream).finish()


def test_without_news_one_line_a_minute(shown: Progress, clock: Clock) -> None:
    for _ in range(13):
        shown._print()
        clock.now += 10.0
    assert len(shown._stream.getvalue().splitlines()) == 3


def test_start_hides_only_what_the_line_replaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KBVERIFIED_PROGRESS", raising=False)
    stream, file = logging.StreamHandler(io.StringIO()), logging.StreamHandler(io.StringIO())
    stream.name = "DefaultStreamHandler"
    logger = logging.Logger("snakemake")
    logger.addHandler(stream)
    logger.addHandler(file)
    progress.start(logger, total=1)
    logger.info("rule time:", extra={"event": LogEvent.JOB_INFO, "jobid": 1, "rule_name": "time"})
    logger.info("Select jobs to execute...")
    logger.error("Error in rule time", extra={"event": LogEvent.JOB_ERROR, "jobid": 1})
    logger.warning("Execute nothing")
    progress.finish()
    assert stream.stream.getvalue() == "Error in rule time\nExecute nothing\n"
    assert len(file.stream.getvalue().splitlines()) == 4


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBVERIFIED_PROGRESS", "off")
    logger = logging.Logger("snakemake")
    progress.start(logger, total=1)
    assert logger.handlers == []
