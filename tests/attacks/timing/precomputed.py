"""Strategy: a thread watches the shared input buffer and computes as soon as other inputs stand there: while the judge
    still draws, copies, or times the other side. When the judge says go the answers lie ready, and they are right.
Layer: timing, the judge's own clock runs from the moment at which inputs can be seen
Severity: high, any speedup
Verdict: time_disputed
Switch: bound
Device: any
Problem: matmul
"""

import contextlib
import gc
import threading
import time

import torch
import torch.nn as nn

from kbverified import codec, layout

READY = {}


def look(a, b):
    return tuple(torch.cat([a[0, :4], a[-1, -4:], b[0, :4], b[-1, -4:]]).tolist())


def bootstraps():
    return [o for o in gc.get_objects() if type(o).__name__ == "Bootstrap"]


def own_stream():
    return torch.cuda.stream(torch.cuda.Stream()) if torch.cuda.is_available() else contextlib.nullcontext()


def watch():
    torch.set_num_threads(1)
    with torch.no_grad(), own_stream():
        (worker,) = bootstraps()
        while True:
            try:
                compute(worker)
            except Exception:
                pass  # buffers change under it
            time.sleep(0.0005)


def compute(worker):
    buffer = worker.inputs_buffer
    if buffer is None or buffer.tensor is None:
        return
    a, b = codec.decode(worker.layout["inputs"], layout.views(buffer.tensor, worker.layout["input_specs"]))
    if look(a, b) in READY:
        return
    mine = a.clone(), b.clone()
    answer = torch.relu(mine[0] @ mine[1])
    if torch.equal(mine[0], a) and torch.equal(mine[1], b):  # or it was half written
        READY.clear()
        READY[look(*mine)] = answer


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        threading.Thread(target=watch, daemon=True).start()

    def forward(self, a, b):
        key = look(a, b)
        for _ in range(1000):  # where it comes too early, in an untimed launch
            found = READY.get(key)
            if found is not None:
                return found
            time.sleep(0.0005)
        return torch.relu(a @ b)
