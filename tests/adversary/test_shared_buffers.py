"""What a worker can do to the buffers that it shares with its judge."""

from __future__ import annotations

import fcntl
import os

import pytest

from kbverified.devices.cpu import CpuDevice


@pytest.mark.parametrize("size", [0, 1, 1 << 21])
def test_a_shared_buffer_cannot_be_resized(size):
    """Reading beyond the end of a shrunk file would end the judge with SIGBUS, and no record would be left."""
    buffer = CpuDevice().allocate(1 << 20)
    theirs = os.open(f"/proc/self/fd/{buffer.fd}", os.O_RDWR)  # as a worker holds it: for writing
    try:
        with pytest.raises(PermissionError):
            os.ftruncate(theirs, size)
        with pytest.raises(PermissionError):
            fcntl.fcntl(theirs, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
        assert buffer.tensor is not None and int(buffer.tensor.sum()) == 0
    finally:
        os.close(theirs)
        buffer.close()


def test_both_sides_still_write_into_a_shared_buffer():
    device = CpuDevice()
    buffer = device.allocate(4096)
    assert buffer.fd is not None
    theirs = device.attach(os.dup(buffer.fd), 4096)
    assert buffer.tensor is not None and theirs.tensor is not None
    theirs.tensor.fill_(7)
    assert int(buffer.tensor[4095]) == 7
    theirs.close()
    buffer.close()
