"""Cores kept for measuring."""

import os
import subprocess
import sys

import pytest

from kbverified import affinity, lease
from kbverified.protocol import RESERVED_CORES_PER_DEVICE as KEPT


def alone(threads):
    """Each on a core of its own."""
    return {thread: frozenset((thread,)) for thread in threads}


@pytest.mark.parametrize("devices", [1, 2, 8])
def test_every_device_has_cores_of_its_own_and_the_others_have_the_rest(devices):
    allowed = range(100, 100 + 2 * KEPT * devices)
    kept = affinity.reserved_cores(allowed, [f"GPU-{n}" for n in range(devices)], alone(allowed))
    assert len(kept) == devices and all(len(cores) == KEPT for cores in kept.values())
    assert len(frozenset().union(*kept.values())) == KEPT * devices
    assert all(frozenset(allowed) >= cores for cores in kept.values())


def test_nothing_is_kept_where_it_would_leave_too_little():
    assert affinity.reserved_cores(range(2 * KEPT - 1), ["GPU-0"], alone(range(100))) == {}
    assert affinity.reserved_cores(range(100), [], alone(range(100))) == {}


def pairs(count, apart):
    """Threads 0 to 2 x count - 1, thread n and n + apart on one core."""
    return {n: frozenset((m, m + apart)) for m in range(2 * count) if m % (2 * apart) < apart for n in (m, m + apart)}


@pytest.mark.parametrize("apart", [1, 16])
def test_a_core_is_measured_on_by_one_of_its_threads_and_closed_to_the_others(apart):
    shared = pairs(16, apart)
    kept = affinity.reserved_cores(range(32), ["GPU-a", "GPU-b"], shared)
    cores = [shared[thread] for threads in kept.values() for thread in threads]
    assert len(set(cores)) == len(cores) == 2 * KEPT
    assert affinity.closed_to_others(kept.values(), shared) == frozenset().union(*cores)


def test_too_few_cores_are_shared_by_whole_cores():
    shared = pairs(8, 8)  # two GPUs would take all eight cores
    kept = affinity.reserved_cores(range(16), ["GPU-a", "GPU-b"], shared)
    assert kept == {"GPU-a": frozenset((0, 8, 1, 9)), "GPU-b": frozenset((2, 10, 3, 11))}
    assert len(affinity.closed_to_others(kept.values(), shared)) == 2 * KEPT


def test_no_core_is_shared_by_two_gpus():
    shared = pairs(8, 8) | {16: frozenset((16, 24))}  # of one core the other thread is not ours
    allowed = [*range(16), 16]
    kept = affinity.reserved_cores(allowed, ["GPU-a", "GPU-b"], shared)
    first, second = (frozenset().union(*(shared[thread] for thread in threads)) for threads in kept.values())
    assert len(kept) == 2 and not first & second


def test_who_shares_a_core_is_read_from_the_system_or_told(tmp_path, monkeypatch):
    monkeypatch.delenv(affinity.SIBLINGS_VARIABLE, raising=False)
    monkeypatch.setattr(affinity, "_TOPOLOGY", tmp_path)
    for thread, text in {0: "0,16", 1: "1-2", 3: "rubbish"}.items():
        path = tmp_path / f"cpu{thread}" / "topology" / "thread_siblings_list"
        path.parent.mkdir(parents=True)
        path.write_text(f"{text}\n")
    found = affinity.siblings((0, 1, 3, 4))
    assert found == {0: {0, 16}, 1: {1, 2}, 3: {3}, 4: {4}}
    monkeypatch.setenv(affinity.SIBLINGS_VARIABLE, "0,2;1,3")
    assert affinity.siblings((0, 3, 4)) == {0: {0, 2}, 3: {1, 3}, 4: {4}}
    monkeypatch.setenv(affinity.SIBLINGS_VARIABLE, "0-2")
    with pytest.raises(ValueError, match=r"KBV_CORE_SIBLINGS='0-2'.*0,16;1,17"):
        affinity.siblings((0,))


def test_who_may_use_every_core_keeps_off_the_cores_of_gpus_that_it_does_not_see(monkeypatch):
    def gpu(uuid: str) -> lease.Gpu:
        return lease.Gpu(uuid, "NVIDIA H200", "580.1", 143771, "9.0")

    monkeypatch.setattr(lease, "installed_gpus", lambda: [gpu("GPU-a"), gpu("GPU-b")])
    monkeypatch.setattr(lease, "mig_instances", dict)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    whole = range(os.cpu_count() or 1)
    assert affinity.sharing(whole) == ["GPU-a", "GPU-b"]
    assert affinity.sharing(whole[1:]) == ["GPU-b"], "cores of its own"


def test_pinning_moves_every_thread():
    core = min(os.sched_getaffinity(0))
    code = (
        "import os, threading, time\n"
        "from kbverified import affinity\n"
        "threading.Thread(target=time.sleep, args=(5,), daemon=True).start()\n"
        f"affinity.pin({{{core}}})\n"
        "print([sorted(os.sched_getaffinity(int(t))) for t in os.listdir('/proc/self/task')])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == str([[core], [core]])
