"""Cores kept for measuring."""

import os
import subprocess
import sys

import pytest

from kbverified import affinity
from kbverified.protocol import RESERVED_CORES_PER_DEVICE as KEPT


@pytest.mark.parametrize("devices", [1, 2, 8])
def test_every_device_has_cores_of_its_own_and_the_others_have_the_rest(devices):
    allowed = range(100, 100 + 2 * KEPT * devices)
    kept = [affinity.reserved_cores(allowed, index, devices) for index in range(devices)]
    assert all(cores is not None and len(cores) == KEPT for cores in kept)
    rest = affinity.common_cores(allowed, devices)
    assert sorted([core for cores in kept for core in cores] + sorted(rest)) == list(allowed)


def test_nothing_is_kept_where_it_would_leave_too_little():
    allowed = range(2 * KEPT - 1)
    assert affinity.reserved_cores(allowed, 0, 1) is None
    assert affinity.common_cores(allowed, 1) == frozenset(allowed)


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
