"""Memory stage: when the candidate's worker ends, beside what is judged or before it."""

from __future__ import annotations

import threading
import types

import pytest

from kbverified.judge import memory

AUDIT = types.SimpleNamespace(input_bytes=10, output_bytes=10, reference_peak_bytes=20)
NEEDED = 60  # two sets of buffers and the reference


@pytest.mark.parametrize(
    ("free_bytes", "order"), [(NEEDED, ["judged", "ended"]), (NEEDED - 1, ["ended", "judged"])], ids=["room", "no room"]
)
def test_it_ends_first_only_where_there_is_no_room_for_both(free_bytes, order):
    happened: list[str] = []
    judged = threading.Event()

    def close():
        if order[0] == "judged":
            assert judged.wait(10)
        happened.append("ended")

    device = types.SimpleNamespace(free_bytes=lambda: free_bytes)
    job = types.SimpleNamespace(audit=AUDIT, party=types.SimpleNamespace(close=close), device=device)
    with memory._ended_meanwhile(job):
        happened.append("judged")
        judged.set()
    assert happened == order


def test_a_worker_that_cannot_be_ended_is_an_error():
    def close():
        raise OSError("it does not die")

    device = types.SimpleNamespace(free_bytes=lambda: NEEDED)
    job = types.SimpleNamespace(audit=AUDIT, party=types.SimpleNamespace(close=close), device=device)
    with pytest.raises(OSError, match="does not die"), memory._ended_meanwhile(job):
        pass
