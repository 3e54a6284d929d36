"""Memory for weights that is touched ahead: the model that is made next finds its pages there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kbverified.bootstrap import heap

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="glibc's heap")

WEIGHTS_BYTES = 64 << 20
FAULTS = """
import resource, sys
import torch
from kbverified.bootstrap import heap

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

torch.nn.Linear(4, 4)
touched = heap.touch(int(sys.argv[1]))
before = faults()
layer = torch.nn.Linear(4096, 4096)
made = faults() - before
if touched:
    heap.map_again()
before = faults()
second = torch.empty(16 << 20).fill_(0)
print(touched, made, faults() - before)
"""


def faults(nbytes: int) -> tuple[bool, int, int]:
    """Whether the heap was touched, and the page faults of a layer of WEIGHTS_BYTES, and of as much again after it."""
    done = subprocess.run([sys.executable, "-c", FAULTS, str(nbytes)], capture_output=True, text=True, check=True)
    touched, made, after = done.stdout.split()
    return touched == "True", int(made), int(after)


def test_a_layer_is_made_in_pages_that_are_there() -> None:
    pages = WEIGHTS_BYTES // 4096
    _, made_untouched, _ = faults(0)
    touched, made, after = faults(WEIGHTS_BYTES)
    if not touched:
        pytest.skip("another C library")
    if made_untouched < pages / 4:
        pytest.skip("the kernel gives large pages unasked")
    assert made < pages / 4
    assert after > pages / 4, "later blocks come from the kernel again"


def test_what_is_small_or_larger_than_the_heap_keeps_is_left_alone() -> None:
    assert not heap.touch(heap.LEAST_BYTES - 1)
    assert not heap.touch(heap.MOST_BYTES + 1)
