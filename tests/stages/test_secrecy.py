"""What a worker is told, and when: no seed, no expected output, and nothing that it does later counts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest
from stage_places import HONEST, TIMED, Place

# Runs one stage in this process, with every message to a worker, every seed and every step written down. The worker
# is a real one, in a process of its own.
from kbverified import protocol
from kbverified.hardened.laws import LAWS
from kbverified.judge.hardened import OWN_MEMORY

RECORDER = """
import hashlib, json, sys
from kbverified.judge import exchange, gate, inputs, party, reference, rounds, trial
events, messages, seeds = [], [], []

def bits(tensors):
    return [hashlib.sha256(t.contiguous().view(-1).numpy().tobytes()).hexdigest() for t in tensors]

def around(owner, name, note):
    original = getattr(owner, name)
    def wrapped(*args, **kwargs):
        result = original(*args, **kwargs)
        note(result, args, kwargs)
        return result
    setattr(owner, name, wrapped)

def step(name):
    return lambda result, args, kwargs: events.append([name])

around(party.Party, "post", lambda r, a, k: messages.append(a[1]))
around(party.Party, "post", lambda r, a, k: events.append(["post " + a[1]["do"]]))
around(exchange.Exchange, "offer", lambda r, a, k: events.append(["offer", bits(a[1].tensors)]))
around(exchange.Exchange, "take", step("take"))
around(exchange.Exchange, "release_outputs", step("release"))
around(exchange.Exchange, "inputs_unchanged", lambda r, a, k: events.append(["unchanged", bits(a[1].tensors)]))
around(reference.Reference, "draw", lambda r, a, k: events.append(["draw", bits(r.tensors), a[1]]))
around(reference.Reference, "draw_law", lambda r, a, k: events.append(["draw", bits(r[0].tensors), a[1]]))
around(reference.Reference, "forward", lambda r, a, k: events.append(["expected", bits(a[1].tensors)]))

writer = exchange.Exchange.writer

def recording_writer(self, index, inputs):
    write = writer(self, index, inputs)
    def write_and_tell():
        write()
        events.append(["write", bits(inputs.tensors)])
    return write_and_tell

exchange.Exchange.writer = recording_writer
for module in (trial, rounds, inputs, gate):
    around(module, "secret_seed", lambda r, a, k: seeds.append(r))

from kbverified.cli import main
code = main(sys.argv[2:])
json.dump({"events": events, "messages": messages, "seeds": seeds}, open(sys.argv[1], "w"))
raise SystemExit(code)
"""


TRIALS = [*protocol.DISTRIBUTIONS, *LAWS, OWN_MEMORY]
"""What a problem without weights is asked."""


def recorded(place: Place, stage: str, item) -> dict:
    out = place.records / f"{stage}-recorded.json"
    words = [sys.executable, "-c", RECORDER, str(out), *place.words(stage, item), *place.bench.options]
    # In this process: what a forked judge does could not be written down from here.
    environment = {**place.bench.environment, "KBV_EVALUATOR": "off"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=place.folder, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert place.record(stage, item)["verdict"] in (TIMED if stage.startswith("time-") else ("pass",))
    return json.loads(out.read_text())


@pytest.fixture(scope="module")
def gated(place):
    item = place.item(HONEST)
    assert place.stage("compile", item).returncode == 0
    return recorded(place, "hidden-gate", item)


def of_trials(found: dict) -> list:
    """What happened in trials. Before them the judge may do some of it once, on draws that no trial has."""
    steps = found["events"]
    first = next(i for i, event in enumerate(steps) if event[0] == "post buffers") - 1
    assert steps[first][0] == "draw"
    before, trials = steps[:first], steps[first:]
    drawn = [event[1] for event in before if event[0] == "draw"]
    assert {event[0] for event in before} <= {"draw", "expected", "post start"}
    assert not [event for event in trials if event[0] in ("draw", "offer", "expected") and event[1] in drawn]
    return trials


@pytest.fixture(scope="module")
def timed(place, gated):
    return recorded(place, "time-fp32", place.item(HONEST))


def no_seed_in_messages(found: dict) -> None:
    text = json.dumps(found["messages"])
    assert found["seeds"] and len(set(found["seeds"])) == len(found["seeds"])
    for seed in found["seeds"]:
        assert str(seed) not in text and hex(seed)[2:] not in text
    assert sum(seed > 1 << 50 for seed in found["seeds"]) >= len(found["seeds"]) - 1  # drawn from 62 bits


def test_the_gate_tells_no_seed(gated):
    assert len(gated["seeds"]) >= len(TRIALS)
    four, more = (["buffers", "forward"] * len(laws) for laws in (protocol.DISTRIBUTIONS, [*LAWS, OWN_MEMORY]))
    more[1:2] = ["forward"] * protocol.HARDENED_LAUNCHES
    assert [m["do"] for m in gated["messages"]] == ["start", *four, "flags", *more]
    no_seed_in_messages(gated)


def test_timing_tells_no_seed_either(timed):
    assert len(timed["seeds"]) >= 4
    told = [m["do"] for m in timed["messages"]]
    assert set(told) == {"construct", "open", "start", "buffers", "forward", "time", "batch", "flags"}
    # The baseline's first launch, with the judge's own beside it, and its batch: before the candidate's model is made.
    (candidate,) = [n for n, m in enumerate(timed["messages"]) if m["do"] == "start" and m["class"] == "ModelNew"]
    assert [n < candidate for n, name in enumerate(told) if name == "forward"] == [True]
    assert "batch" in told[:candidate] and "time" in told[:candidate]
    batch = ("do", "index", "forward_seed", "queued_flushes", "cover_ms", "spin_s")
    assert {tuple(m) for m in timed["messages"] if m["do"] == "batch"} == {batch}
    no_seed_in_messages(timed)


def test_a_message_holds_shapes_and_places_and_public_seeds_only(gated):
    start, buffers, forward, *_ = gated["messages"]
    known = {"do", "device", "mode", "dtype", "source", "class", "init_inputs", "weight_seed", "build_directory"}
    known |= {"build_writable", "header", "threads", "environment", "digests", "cores"}
    assert set(start) == known
    assert set(buffers) == {"do", "copies", "input_bytes", "output_bytes", "layout", "guard"}
    assert set(buffers["layout"]) == {"inputs", "input_specs", "outputs", "output_specs"}
    assert set(forward) == {"do", "forward_seed"}
    # Not even which distribution it is: a candidate could behave on one and cheat on the others.
    assert not any(name in json.dumps(gated["messages"]) for name in ("d1_", "scale", "negate", "h1_", "spikes"))


def test_the_expected_output_is_made_after_the_answer_was_taken(gated):
    def trial(launches: int) -> list[str]:
        return ["draw", "offer", *["post forward", "take"] * launches, "release", "draw", "unchanged", "expected"]

    steps = [event[0] for event in of_trials(gated) if event[0] in trial(1)]
    twice = next(iter(LAWS))
    assert steps == [step for name in TRIALS for step in trial(protocol.HARDENED_LAUNCHES if name == twice else 1)]


def test_inputs_are_drawn_again_and_equal_and_the_reference_gets_the_private_draw(gated):
    events = of_trials(gated)
    draws = [event for event in events if event[0] == "draw"]
    assert len(draws) == 2 * len(TRIALS)
    others = {event[0]: [] for event in events}
    for event in events:
        others[event[0]].append(event[1] if len(event) > 1 else None)
    for trial in range(len(TRIALS)):
        first, second = draws[2 * trial : 2 * trial + 2]
        assert first == second
        assert others["offer"][trial] == others["unchanged"][trial] == others["expected"][trial] == first[1]
    assert len({event[1][0] for event in draws}) == len(TRIALS)  # no trial repeats another's
    assert [event[2] for event in draws[::2]] == [*TRIALS[:-1], protocol.STANDARD_DISTRIBUTION]


def test_inputs_are_redrawn_between_timed_rounds(timed):
    offered = [event[1][0] for event in timed["events"] if event[0] == "offer"]
    assert len(set(offered)) >= 5  # the pilot's and those of at least four rounds
    # Both sides of a round get the same.
    assert sum(one == next_one for one, next_one in pairwise(offered)) >= 4


def test_a_batch_shows_each_input_once_and_only_when_it_is_to_be_launched(timed):
    shown = [event for event in timed["events"] if event[0] in ("write", "post batch")]
    assert [event[0] for event in shown] == ["write", "post batch"] * (len(shown) // 2)
    written = [event[1][0] for event in shown if event[0] == "write"]
    earlier = [event[1][0] for event in timed["events"] if event[0] == "offer"]
    # The baseline's first batch has inputs of its own; then come its next and the candidate's, on the same inputs. No
    # round has had any of them.
    times = Counter(written)
    assert set(times.values()) == {1, 2} and not set(written) & set(earlier)
    alone = [bits for bits in written if times[bits] == 1]
    assert written[: len(alone)] == alone


# --- attacks ----------------------------------------------------------------------------------------------------------

THREAD = """
import threading, time
import torch
import torch.nn as nn

def keep_writing(x, value):
    while True:
        x.fill_(value)
        time.sleep(0.0005)

class ModelNew(nn.Module):
    def forward(self, x):
        threading.Thread(target=keep_writing, args=(x, {value}), daemon=True).start()
        time.sleep({pause})
        return {answer}
"""


@pytest.mark.parametrize(
    ("value", "answer"), [("0.0", "torch.zeros_like(x)"), ("1.0", "torch.ones_like(x)")], ids=["zeros", "ones"]
)
def test_a_thread_that_changes_the_inputs_later_does_not_change_what_is_expected(place, value, answer):
    """The answer is right for the inputs that it leaves behind, were those what the reference sees."""
    item = place.item(THREAD.format(value=value, answer=answer, pause=0.01), 1)
    gate = place.gate(item)
    assert gate["verdict"] == "mutates_input", gate


AFTERWARDS = """
import gc, threading, time
import torch
import torch.nn as nn

def write_later(x):
    # Between the check of the inputs and the reference's forward lie microseconds: write through all of it.
    end = time.monotonic() + 0.5
    time.sleep(0.004)
    while time.monotonic() < end:
        for found in gc.get_objects():
            if type(found) is torch.Tensor and found.dtype == torch.float32 and found.shape == (64, 64):
                found.zero_()

class ModelNew(nn.Module):
    def forward(self, x):
        threading.Thread(target=write_later, args=(x,), daemon=True).start()
        return torch.zeros_like(x)
"""


def test_no_moment_of_writing_makes_zeros_right(place):
    gate = place.gate(place.item(AFTERWARDS, 2))
    for trial in gate["trials"]:
        # Under negation zeros are what ReLU gives; under every other law never.
        right = trial["failure"] is None and trial["critical_tolerance"] <= 1e-3
        assert not right or trial["distribution"] == "d4_negate", gate


LOOKS = """
import gc, json, os, sys, time
import torch
import torch.nn as nn

class ModelNew(nn.Module):
    def forward(self, x):
        frame, seen = sys._getframe(), []
        while frame is not None:
            seen += [repr(v)[:4000] for v in frame.f_locals.values() if isinstance(v, (dict, int, str, list))]
            frame = frame.f_back
        print("SEEN", json.dumps([seen, dict(os.environ)]))
        return torch.relu(x)
"""


def test_neither_frames_nor_environment_hold_a_secret(place):
    item = place.item(LOOKS, 3)
    assert place.stage("compile", item).returncode == 0
    found = recorded(place, "hidden-gate", item)
    printed = place.record("hidden-gate", item)["output_tail"]
    assert "forward_seed" in printed  # it did look: the message of this launch is there
    assert not [seed for seed in found["seeds"] if str(seed) in printed]
    for word in ("critical_tolerance", "d1_original", str(place.records), str(place.problem)):
        assert word not in printed


# --- bf16 -------------------------------------------------------------------------------------------------------------


def test_bf16_from_end_to_end(bench, tmp_path):
    place = Place(bench, tmp_path)
    audit = place.make_audit()
    assert audit["usable"] and audit["outputs"][0]["dtype"] == "float32"  # the audit knows no generator
    item = place.item(HONEST.replace("torch.relu(x)", "torch.relu(x) if x.dtype == torch.bfloat16 else None"))
    gate = place.gate(item, "--dtype", "bf16")
    assert gate["verdict"] == "pass", gate
    assert [t["critical_tolerance"] for t in gate["trials"]] == [0.0] * 4
    assert gate["provenance"]["dtype"] == "bf16"
    for stage in ("time-fp32", "time-tf32", "memory"):
        done = place.stage(stage, item, "--dtype", "bf16")
        assert done.returncode == 0, done.stderr
    assert place.record("time-fp32", item)["verdict"] in TIMED and place.record("memory", item)["verdict"] == "pass"
    skipped = place.record("time-tf32", item)
    assert (skipped["status"], skipped["reason"]) == ("skipped", "TF32 has no effect on bf16")
    wide = place.item(HONEST.replace("torch.relu(x)", "torch.relu(x).float()"), 1)
    assert place.gate(wide, "--dtype", "bf16")["verdict"] == "wrong_dtype"
