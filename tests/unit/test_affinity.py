"""Cores kept for measuring."""

import os
import subprocess
import sys

import pytest

from kbverified import affinity, lease
from kbverified.protocol import RESERVED_CORES_PER_DEVICE as KEPT


@pytest.mark.parametrize("devices", [1, 2, 8])
def test_every_device_has_cores_of_its_own_and_the_others_have_the_rest(devices):
    allowed = range(100, 100 + 2 * KEPT * devices)
    kept = affinity.reserved_cores(allowed, [f"GPU-{n}" for n in range(devices)])
    assert len(kept) == devices and all(len(cores) == KEPT for cores in kept.values())
    assert len(frozenset().union(*kept.values())) == KEPT * devices
    assert all(frozenset(allowed) >= cores for cores in kept.values())


def test_nothing_is_kept_where_it_would_leave_too_little():
    assert affinity.reserved_cores(range(2 * KEPT - 1), ["GPU-0"]) == {}
    assert affinity.reserved_cores(range(100), []) == {}


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
