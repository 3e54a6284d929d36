"""Inside the compile worker: reach build requests that hide in a constructor or a forward, without a GPU.

Many candidates build their extension on first use. Here torch pretends that a GPU is present and the candidate is
constructed and called once on fake tensors, which carry shapes but no data. Only the build requests met on the way
matter; any other error is expected and ignored.
"""

from __future__ import annotations

import types
from typing import Any

import torch

from kbverified.codec import dtype_of


def pretend_gpu(arch: str) -> None:
    """Answer the questions that candidates ask of torch.cuda before they build, for one architecture (``9.0``)."""
    major, minor = (int(part) for part in arch.split(";")[0].split("+")[0].rstrip("a").split("."))
    properties: Any = types.SimpleNamespace(
        name="pretended",
        major=major,
        minor=minor,
        multi_processor_count=132,
        total_memory=80 << 30,
        max_threads_per_multi_processor=2048,
        warp_size=32,
        L2_cache_size=50 << 20,
        shared_memory_per_block=48 << 10,
    )
    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: 1
    torch.cuda.current_device = lambda: 0
    torch.cuda.get_device_capability = lambda *_: (major, minor)
    torch.cuda.get_device_name = lambda *_: "pretended"
    torch.cuda.get_device_properties = lambda *_: properties
    torch.cuda.synchronize = lambda *_: None


def dry_forward(factory: Any, init_inputs: Any, inputs: list[Any], device: str) -> str | None:
    """Construct and call once on fake tensors. Returns the error met, as text; None where it ran through.

    ``inputs``: [shape, dtype name] for tensors, None for arguments that are no tensors. A torch without CUDA cannot
    make even fake CUDA tensors; there the tensors are fake CPU tensors that claim to be on a GPU.
    """
    met = _attempt(factory, init_inputs, inputs, device)
    if device == "cuda" and met is not None and any(word in met for word in _NO_FAKE_CUDA):
        _pretend_cuda_tensors()
        met = _attempt(factory, init_inputs, inputs, "cpu")
    return met


_NO_FAKE_CUDA = ("not linked with support for cuda", "No CUDA GPUs", "NVIDIA driver", "not compiled with CUDA")


def _attempt(factory: Any, init_inputs: Any, inputs: list[Any], device: str) -> str | None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    try:
        # Under the device context parameters are made where the inputs are: moving fake modules is not possible.
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad(), torch.device(device):
            model = factory(*init_inputs)
            values = [None if spec is None else torch.empty(spec[0], dtype=dtype_of(spec[1])) for spec in inputs]
            model(*values)
    except Exception as error:  # whatever stops the dry run is no verdict: the gate runs the real thing
        return f"{type(error).__name__}: {error}"[:500]
    return None


def _pretend_cuda_tensors() -> None:
    torch.Tensor.is_cuda = property(lambda self: True)  # type: ignore[assignment]
    torch.Tensor.cuda = lambda self, *_, **__: self  # type: ignore[method-assign,assignment]
