"""Every bundled dishonest candidate gets the verdict that its file names; honest ones pass every stage."""

from __future__ import annotations

import json
import os

import pytest
from chain import STAGES, expected_verdict, verdict
from stage_places import DISHONEST, TIMED, TIMEOUT_S
from stage_places import HONEST_BUNDLED as HONEST

from kbverified.protocol import TIMING_ROUNDS_MAX, TIMING_ROUNDS_MIN, WORKER_OUTPUT_KEPT_BYTES


def of(records, item):
    found = records[item.name]
    assert isinstance(found, dict), found
    return found


def named(name: str):
    return next(item for item in DISHONEST if item.name == f"bundled-dishonest/{name}")


def test_none_is_left_out():
    assert len(DISHONEST) >= 33 and len(HONEST) == 3
    assert {expected_verdict(item) for item in DISHONEST} >= {"crash", "timeout", "compile_error", "mutates_input"}


@pytest.mark.parametrize("item", DISHONEST, ids=lambda item: item.name)
def test_a_dishonest_candidate_gets_the_verdict_its_file_names(records, item):
    found = of(records, item)
    assert verdict(found) == expected_verdict(item), json.dumps(found["hidden-gate"])[-2000:]


@pytest.mark.parametrize("item", HONEST, ids=lambda item: item.name)
def test_an_honest_candidate_passes_every_stage(records, item):
    found = of(records, item)
    assert verdict(found) == "pass", json.dumps(found["hidden-gate"])[-2000:]
    for stage in STAGES:
        allowed = TIMED if stage.startswith("time-") else ("pass",)
        assert found[stage]["status"] == "ok" and found[stage]["verdict"] in allowed, found[stage]
    for stage in STAGES[1:]:
        provenance = found[stage]["provenance"]
        assert provenance["sandbox"] == ("full" if os.getuid() == 0 else provenance["sandbox"])
        assert provenance["device"]["kind"] == "cpu"
        # On a CPU only what is measured keeps others off the device.
        assert stage == "hidden-gate" or provenance["device_hold_s"] > 0
    modes = [found[stage]["provenance"]["mode"] for stage in STAGES]
    assert modes == [None, "ieee", "default", "tf32", "default"]


@pytest.mark.parametrize("item", HONEST, ids=lambda item: item.name)
def test_times_are_whole(records, item):
    for stage in ("time-fp32", "time-tf32"):
        found = of(records, item)[stage]
        rounds = found["rounds"]
        assert TIMING_ROUNDS_MIN <= len(rounds) <= TIMING_ROUNDS_MAX
        assert [r["first"] for r in rounds] == (["baseline", "candidate"] * len(rounds))[: len(rounds)]
        for side in ("baseline_ms", "candidate_ms"):
            assert len({len(r[side]) for r in rounds}) == 1
            assert all(0 < t < 1e3 * TIMEOUT_S for r in rounds for t in r[side])
        assert found["outputs_verified"] >= 2
        assert found["timed_critical_tolerance"] <= 1e-3
        assert found["judge_wall_ms_per_launch"] > 0
        assert found["rounds_dropped"] == 0  # nothing reads a CPU's clock
        bound = found["judge_bound"]
        assert bound["outcome"] in ("agreed", "not_enforced")
        assert bound["undetected_gain_at_most"] > 1 and bound["k"] >= 1


@pytest.mark.parametrize("item", HONEST, ids=lambda item: item.name)
def test_memory_of_both_sides_is_there(records, item):
    found = of(records, item)["memory"]
    for side in ("baseline", "candidate"):
        assert found[side]["device_peak_bytes"] > 50 << 20  # a process with torch in it
        assert found[side]["allocator_peak_bytes"] is None  # nothing counts it on a CPU, so no number
    assert found["input_bytes"] > 0 and found["output_bytes"] > 0


def test_the_extension_was_built_in_the_compile_stage(records):
    found = of(records, next(item for item in HONEST if item.name.endswith("level1_1/0")))
    (build,) = found["compile"]["builds"]
    assert build["ok"] and not build["cached"] and build["seconds"] > 0
    assert found["compile"]["cpu_seconds"] > 0


def test_a_compiler_error_is_told_in_its_own_words(records):
    found = of(records, named("level1_1/20"))["compile"]
    (build,) = found["builds"]
    assert (build["name"], build["ok"]) == ("bundled_broken", False)
    assert "undeclared_name" in found["detail"] and "undeclared_name" in build["log_tail"]


def test_what_a_candidate_printed_is_kept_and_capped(records):
    tail = of(records, named("level1_1/12"))["hidden-gate"]["output_tail"]
    assert "xxx" in tail and len(tail) <= 2 * WORKER_OUTPUT_KEPT_BYTES


def test_a_failure_of_every_launch_is_seen_on_every_distribution(records):
    trials = of(records, named("level1_1/3"))["hidden-gate"]["trials"]
    assert [t["failure"] for t in trials] == ["wrong_dtype"] * 4


def test_a_dead_worker_ends_the_trials(records):
    for name in ("level1_1/10", "level1_1/11", "level1_1/13"):
        trials = of(records, named(name))["hidden-gate"]["trials"]
        assert len(trials) == 1, trials


def test_skipped_after_a_failed_build(records):
    found = of(records, named("level1_1/20"))["hidden-gate"]
    assert (found["status"], found["verdict"]) == ("skipped", None)
    assert found["reason"].startswith("compile: compile_error") and found["provenance"]["device"] is None


def test_nobody_but_the_judge_wrote_a_record(records):
    found = of(records, named("level1_8/0"))["hidden-gate"]
    assert found["provenance"]["candidate_sha256"] and len(found["trials"]) == 4
