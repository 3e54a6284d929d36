"""Memory around what a worker is given: who leaves its bounds is ended, or meets what can be no right answer."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import subprocess
import sys

import pytest
import torch

from kbverified import layout
from kbverified.devices.cpu import CpuDevice
from kbverified.judge.hardened import guard_of
from kbverified.protocol import HARDENED_RUBBISH
from kbverified.records import TensorSpec

DEVICE = CpuDevice()
GUARD = guard_of("cpu", 0)
SPECS = [TensorSpec(shape=(64, 64), dtype="float32"), TensorSpec(shape=(5, 3), dtype="float32")]
SPECS += [TensorSpec(shape=(), dtype="int64"), TensorSpec(shape=(3000,), dtype="bfloat16")]


def end_of_reading(address: int, nbytes: int = 1) -> int:
    """0 where a child can read these bytes, else the signal that ends it."""
    child = os.fork()
    if child == 0:
        faulthandler.disable()  # the test's own, which would tell of what is expected
        ctypes.string_at(address, nbytes)
        os._exit(0)
    return -os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def attached():
    """A buffer as a worker has it: (its tensors, the judge's view of all of it)."""
    slots, nbytes = layout.plan(SPECS, guard=GUARD)
    mine = DEVICE.allocate(nbytes, guarded=True)
    assert mine.fd is not None and mine.tensor is not None
    layout.fill_between(mine.tensor, slots, GUARD.rubbish)
    for view in layout.views(mine.tensor, slots):
        view.fill_(1)
    theirs = DEVICE.attach(os.dup(mine.fd), nbytes, layout.gaps(slots, GUARD.page_bytes, GUARD.gap_bytes))
    yield layout.views(theirs.tensor, slots), mine.tensor
    theirs.close()
    mine.close()


def test_every_tensor_can_be_read_whole_and_is_aligned_as_torch_aligns(attached):
    for tensor in attached[0]:
        assert bool((tensor == 1).all()) and tensor.data_ptr() % 64 == 0
        assert end_of_reading(tensor.data_ptr(), tensor.numel() * tensor.element_size()) == 0


def test_the_first_byte_behind_a_tensor_ends_who_reads_it_but_for_what_its_alignment_takes(attached):
    for tensor in attached[0]:
        size = tensor.numel() * tensor.element_size()
        beyond = -(-size // 64) * 64
        assert end_of_reading(tensor.data_ptr() + beyond) == signal.SIGSEGV
        assert ctypes.string_at(tensor.data_ptr() + size, beyond - size) == bytes([0x7F]) * (beyond - size)


def test_so_does_what_lies_before_the_first_page_of_a_tensor(attached):
    for tensor in attached[0]:
        page = tensor.data_ptr() // GUARD.page_bytes * GUARD.page_bytes
        assert end_of_reading(page - 1) == end_of_reading(page - GUARD.gap_bytes) == signal.SIGSEGV
        assert set(ctypes.string_at(page, tensor.data_ptr() - page)) <= {0x7F}


def test_the_judge_can_read_all_of_it(attached):
    assert int((attached[1] == 0x7F).sum()) > len(SPECS) * GUARD.gap_bytes


@pytest.mark.parametrize("tensor", [torch.randn(64, 64), torch.randn(7, 3).t(), torch.tensor(2.5), torch.arange(100)])
def test_weights_are_the_same_between_guards(tensor):
    copy = DEVICE.guarded_copy(tensor, GUARD.gap_bytes, GUARD.align_bytes, GUARD.rubbish)
    assert torch.equal(copy, tensor) and (copy.stride(), copy.dtype) == (tensor.stride(), tensor.dtype)
    size = -(-tensor.numel() * tensor.element_size() // 64) * 64
    assert end_of_reading(copy.data_ptr() + size) == signal.SIGSEGV
    assert copy.data_ptr() % 64 == 0 and end_of_reading(copy.data_ptr() + size - 1) == 0
    assert end_of_reading(copy.data_ptr() // GUARD.page_bytes * GUARD.page_bytes - 1) == signal.SIGSEGV


def test_what_has_no_memory_of_its_own_for_each_element_stays_as_it_is():
    expanded = torch.randn(1, 4).expand(3, 4)
    assert DEVICE.guarded_copy(expanded, GUARD.gap_bytes, GUARD.align_bytes, 0) is expanded


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_the_rubbish_changes_from_trial_to_trial(kind):
    assert [guard_of(kind, number).rubbish for number in range(7)] == [*HARDENED_RUBBISH, *HARDENED_RUBBISH, 0x7F]
    as_float = {
        byte: torch.tensor([byte] * 4, dtype=torch.uint8).view(torch.float32).item() for byte in HARDENED_RUBBISH
    }
    assert as_float[0x7F] > 3e38 and as_float[0xFE] < -1e38 and as_float[0xFF] != as_float[0xFF]


FILLS = """
import ctypes, sys, torch
from kbverified.devices.cpu import CpuDevice
byte, libc = int(sys.argv[1]), ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
CpuDevice().fill_free_memory([], byte)
for size in (40_000, 1 << 20, 40 << 20, 40 << 20):
    for block in (torch.empty(size, dtype=torch.uint8), ctypes.string_at(libc.malloc(ctypes.c_size_t(size)), size)):
        print(sorted(set(block[:: 4093].tolist() if isinstance(block, torch.Tensor) else block[:: 4093])))
"""


@pytest.mark.parametrize(("byte", "found"), [(0x7F, 0x7F), (0xFE, 0xFE), (0xFF, 0x7F)])
def test_free_memory_is_filled_in_blocks_of_every_size(byte, found):
    """Those that come fresh from the system, which has set them to zero, as well: of torch's and of malloc's."""

    done = subprocess.run([sys.executable, "-c", FILLS, str(byte)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == [f"[{found}]"] * 8


SMALL = """
import ctypes, torch
from kbverified.devices.cpu import CpuDevice
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
sizes = (40, 104, 488, 1016)
left = [[libc.malloc(ctypes.c_size_t(size)) for _ in range(7)] for size in sizes]
for size, blocks in zip(sizes, left):
    for block in blocks:
        ctypes.memset(block, 5, size)
for blocks in left:
    for block in blocks:
        libc.free(ctypes.c_void_p(block))
CpuDevice().fill_free_memory([], 0x7F)
got = [(size, libc.malloc(ctypes.c_size_t(size))) for size in sizes]
for size, block in got:  # two words of a free block are its list's
    print(sum(byte == 0x7F for byte in ctypes.string_at(block, size)[16:]) / (size - 16))
"""


def test_so_are_small_blocks_that_wait_to_be_used_again():
    done = subprocess.run([sys.executable, "-c", SMALL], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [float(line) for line in done.stdout.split()] == [1.0] * 4
