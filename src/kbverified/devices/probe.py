"""What torch says of itself and of the CPU device: ``python -m kbverified.devices.probe`` prints one line of JSON.

A process of its own, for ``doctor``. No CUDA context is made: a GPU that somebody measures on is left alone.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from typing import Any

from kbverified.lease import leave_driver_untouched


def torch_facts() -> dict[str, Any]:
    """Versions, and for which GPUs this build of torch has code. Imports torch."""
    leave_driver_untouched()
    import torch

    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "architectures": torch.cuda.get_arch_list() if torch.version.cuda else [],
        "available": torch.cuda.is_available() if torch.version.cuda else False,
        "cuda_bindings": importlib.util.find_spec("cuda") is not None
        and importlib.util.find_spec("cuda.bindings") is not None,
        "triton": importlib.util.find_spec("triton") is not None,
    }


def cpu_facts() -> dict[str, Any]:
    """A shared buffer mapped a second time, as a worker does, and one timed launch. Raises what the device raises."""
    import torch

    from kbverified.devices import open_device
    from kbverified.devices.cpu import reset_resident_peak

    device = open_device("cpu")
    ours = device.allocate(1 << 20)
    assert ours.fd is not None and ours.tensor is not None
    theirs = device.attach(os.dup(ours.fd), 1 << 20)
    assert theirs.tensor is not None
    ours.tensor.fill_(7)
    shared = bool((theirs.tensor == 7).all())
    a = torch.rand(256, 256)
    a @ a
    elapsed_ms, _ = device.time_ms(lambda: a @ a)
    for buffer in (ours, theirs):
        buffer.close()
    return {"shared": shared, "matmul_ms": elapsed_ms, "resident_peak": reset_resident_peak(os.getpid())}


def main() -> int:
    facts = torch_facts()
    try:
        facts["cpu"] = cpu_facts()
    except Exception as error:
        facts["cpu_error"] = f"{type(error).__name__}: {error}"
    print(json.dumps(facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
