"""Host memory for a model's weights, touched before a device is held for the model.

Every candidate constructs its weights on the host, as KernelBench does, while it holds a GPU. Of the 0.30 s that 67
million of them take, 0.10 s go into pages that the kernel finds, clears and maps when they are first written (2-core
AMD EPYC, torch 2.13, 2026-12-01). Memory that glibc's heap has held before costs none of that.
"""

from __future__ import annotations

import ctypes

LEAST_BYTES = 16 << 20
"""Below this there is nothing to save: 4,096 pages, some 6 ms."""
MOST_BYTES = 3 << 29
"""The heap's limit for what it keeps is an int (bytes)."""
_ROOM_BYTES = 32 << 20
"""For what a constructor makes beside the weights."""

# malloc.h of glibc. Maps are off while the weights are made, and afterwards begin where glibc's own moving threshold
# would have ended (DEFAULT_MMAP_THRESHOLD_MAX), which any call of mallopt stops moving.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4
_MAPS_MAX = 65536
_MAPPED_FROM_BYTES = 32 << 20


def touch(weights_bytes: int) -> bool:
    """Have the heap of this process hold so much memory, touched, for what is allocated next.

    False, and nothing changed: too little or too much to be worth it, another C library, or no such memory.
    """
    libc = ctypes.CDLL(None)
    if not LEAST_BYTES <= weights_bytes <= MOST_BYTES or not hasattr(libc, "mallopt"):
        return False
    libc.mallopt(_M_MMAP_MAX, 0)
    libc.mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    nbytes = weights_bytes + _ROOM_BYTES
    address = libc.malloc(nbytes)
    if address is None:
        map_again()
        return False
    ctypes.memset(address, 0, nbytes)
    libc.free(address)
    return True


def map_again() -> None:
    """The weights are made: large blocks come from maps of their own again."""
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_MMAP_MAX, _MAPS_MAX)
    libc.mallopt(_M_MMAP_THRESHOLD, _MAPPED_FROM_BYTES)
