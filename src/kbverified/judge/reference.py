"""The trusted PyTorch model of a problem: constructed, run, and described."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import torch

from kbverified import codec, layout, problems
from kbverified.devices.base import Device
from kbverified.distributions import DTYPES, Inputs, draw
from kbverified.hardened.laws import Parameters, draw_law
from kbverified.hardened.weights import perturbed_identity
from kbverified.protocol import FORWARD_SEED, WEIGHT_SEED


class Reference:
    """Problem module plus a model: constructed without a device, then placed on one.

    Raises problems.ProblemError where the module is not a problem, and whatever the problem's own code raises.
    """

    def __init__(self, path: Path, dtype: str = "fp32"):
        self.dtype = dtype
        self.device: Device | None = None
        self.problem = problems.load(path)
        torch.manual_seed(WEIGHT_SEED)
        self.init_inputs = self.problem.get_init_inputs()
        self.model: Any = self.construct(WEIGHT_SEED)
        self._prepared: tuple[int, bool, Any] | None = None

    def construct(self, weight_seed: int) -> torch.nn.Module:
        """A model from a weight seed, on the CPU and in fp32, as KernelBench constructs it."""
        torch.manual_seed(weight_seed)
        return self.problem.Model(*self.init_inputs)

    def prepare(self, weight_seed: int, perturb: bool) -> None:
        """Construct the model that ``rebuild`` will be asked for, before a device is held for it."""
        try:
            self._prepared = (weight_seed, perturb, self._another(weight_seed, perturb))
        except Exception:  # not every model bears it, and not every candidate comes that far: ``rebuild`` will say so
            self._prepared = None

    def _another(self, weight_seed: int, perturb: bool) -> torch.nn.Module:
        with perturbed_identity(weight_seed) if perturb else contextlib.nullcontext():
            return self.construct(weight_seed)

    def rebuild(self, weight_seed: int, perturb: bool) -> list[list[Any]]:
        """Another model on the same device, as a worker's ``rebuild`` makes it; digests of its weights."""
        assert self.device is not None
        self.model = None
        self.device.release_cached()
        prepared, self._prepared = self._prepared, None
        if prepared is not None and prepared[:2] == (weight_seed, perturb):
            self.model = prepared[2]
        else:
            self.model = self._another(weight_seed, perturb)
        self.place(self.device)
        return self.digests()

    def place(self, device: Device) -> None:
        """Move the model to a device, in the generator's dtype."""
        dtype = DTYPES[self.dtype] if self.dtype != "fp32" else None
        self.model = self.model.to(device=device.torch_device, dtype=dtype)
        self.device = device

    def digests(self) -> list[list[Any]]:
        """Of the weights as they lie on the device, for ``weights_differ``: ask after ``place``."""
        return layout.state_digests(self.model)

    def encoded_init_inputs(self) -> Any:
        """The constructor's arguments as they cross to a worker. Raises codec.CodecError for tensors."""
        tensors: list[torch.Tensor] = []
        encoded = codec.encode(list(self.init_inputs), tensors)
        if tensors:
            raise codec.CodecError("get_init_inputs() returns tensors, which no worker can be given yet")
        return encoded

    def draw(self, distribution: str, seed: int) -> Inputs:
        """Inputs of this problem on its device, in its dtype."""
        assert self.device is not None
        return draw(self.problem.get_inputs, distribution, seed, self.device.torch_device, self.dtype)

    def draw_law(self, law: str, seed: int, positive: bool) -> tuple[Inputs, Parameters]:
        """The same under a hardened law (hardened/laws.py), and what the law drew."""
        assert self.device is not None
        return draw_law(self.problem.get_inputs, law, seed, self.device.torch_device, self.dtype, positive)

    def forward(self, inputs: Inputs) -> Any:
        """One forward in train mode without gradients, the generator reseeded before it."""
        assert self.device is not None
        arguments = codec.decode(inputs.encoded, inputs.tensors)
        torch.manual_seed(FORWARD_SEED)
        with torch.no_grad():
            result = self.model(*arguments)
        self.device.synchronize()
        return result

    def weight_bytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in self.model.state_dict().values())
