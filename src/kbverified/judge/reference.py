"""The trusted PyTorch model of a problem: constructed, run, and described."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from kbverified import codec, layout, problems
from kbverified.devices.base import Device
from kbverified.distributions import DTYPES, Inputs
from kbverified.protocol import FORWARD_SEED, WEIGHT_SEED


class Reference:
    """Problem module plus a model on a device.

    Raises problems.ProblemError where the module is not a problem, whatever the problem's own code raises.
    """

    def __init__(self, path: Path, device: Device, dtype: str = "fp32", weight_seed: int = WEIGHT_SEED):
        self.device = device
        self.dtype = dtype
        self.problem = problems.load(path)
        torch.manual_seed(weight_seed)
        self.init_inputs = self.problem.get_init_inputs()
        self.model = self.build(weight_seed)

    def build(self, weight_seed: int) -> torch.nn.Module:
        """A model from a weight seed: constructed on the CPU, as KernelBench does, then moved."""
        torch.manual_seed(weight_seed)
        model = self.problem.Model(*self.init_inputs)
        self.digests = layout.state_digests(model) if self.digest_wanted else []
        dtype = DTYPES[self.dtype] if self.dtype != "fp32" else None
        return model.to(device=self.device.torch_device, dtype=dtype)

    digest_wanted = False
    digests: list[list[Any]] = []  # noqa: RUF012  (set by build)

    def encoded_init_inputs(self) -> Any:
        """The constructor's arguments as they cross to a worker. Raises codec.CodecError for tensors."""
        tensors: list[torch.Tensor] = []
        encoded = codec.encode(list(self.init_inputs), tensors)
        if tensors:
            raise codec.CodecError("get_init_inputs() returns tensors, which no worker can be given yet")
        return encoded

    def forward(self, inputs: Inputs) -> Any:
        """One forward in train mode without gradients, the generator reseeded before it."""
        arguments = codec.decode(inputs.encoded, inputs.tensors)
        torch.manual_seed(FORWARD_SEED)
        with torch.no_grad():
            result = self.model(*arguments)
        self.device.synchronize()
        return result

    def weight_bytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in self.model.state_dict().values())


class DigestedReference(Reference):
    """A reference that also knows the digests of its weights, for the reason ``weights_differ``."""

    digest_wanted = True
