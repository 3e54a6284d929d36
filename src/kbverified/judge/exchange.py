"""The judge's buffers for one worker: inputs written, outputs poisoned, answers taken away to private memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch

from kbverified import layout
from kbverified.devices.base import Device, SharedBuffer
from kbverified.distributions import DTYPES, Inputs
from kbverified.judge.party import Party
from kbverified.protocol import FORWARD_SEED, POISON_AMPLITUDE
from kbverified.records.problem import ProblemRecord, TensorSpec


def output_specs(audit: ProblemRecord, dtype: str) -> list[TensorSpec]:
    """Outputs as the audit saw them, float32 replaced by the generator's dtype."""
    name = str(DTYPES[dtype]).removeprefix("torch.")
    return [TensorSpec(shape=s.shape, dtype=name if s.dtype == "float32" else s.dtype) for s in audit.outputs]


class Exchange:
    """An input and an output buffer shared with one worker, each for ``copies`` sets. Both belong to the judge.

    ``guard``: what lies around each tensor, and in free memory before each launch.
    """

    def __init__(
        self, device: Device, party: Party, audit: ProblemRecord, dtype: str, guard: layout.Guard | None = None
    ):
        self.device = device
        self.party = party
        self.guard = guard
        self.structure: Any = audit.output_structure
        self.out_slots, self.out_bytes = layout.plan(output_specs(audit, dtype), guard=guard)
        self.in_slots: list[layout.Slot] = []
        self.in_bytes = 0
        self.copies = 1
        self.inputs: SharedBuffer | None = None
        self.outputs: SharedBuffer | None = None
        self.poison = torch.Generator(device=device.torch_device)
        self.poison.seed()

    def resize(self, copies: int) -> None:
        """Give the buffers up; the next ``offer`` makes some for so many sets."""
        self.close()
        self.copies = copies

    def offer(self, inputs: Inputs) -> None:
        """Write inputs into (new, or the same) shared memory, poison the outputs, and hand both to the worker.

        Of several sets the first is written. Raises MemoryError where the buffers do not fit, CandidateFailure where
        the worker cannot map them.
        """
        slots, nbytes = input_plan(inputs, self.guard)
        fresh = self.inputs is None or self.outputs is None or slots != self.in_slots
        if fresh:
            self.close()
            closed = self.guard is not None and self.guard.closed
            self.inputs = self.device.allocate(self.copies * nbytes, closed)
            self.outputs = self.device.allocate(self.copies * self.out_bytes, closed)
            self.in_slots, self.in_bytes = slots, nbytes
            self._fill_gaps()
        layout.copy_into(self._input_views(), inputs.tensors)
        self.poison_outputs()
        self.device.synchronize()
        if fresh:
            self._hand_over(inputs)

    def _fill_gaps(self) -> None:
        if self.guard is None:
            return
        assert self.inputs is not None and self.inputs.tensor is not None
        assert self.outputs is not None and self.outputs.tensor is not None
        for index in range(self.copies):
            for buffer, nbytes, slots in (
                (self.inputs.tensor, self.in_bytes, self.in_slots),
                (self.outputs.tensor, self.out_bytes, self.out_slots),
            ):
                layout.fill_between(layout.nth_set(buffer, nbytes, index), slots, self.guard.rubbish)

    def writer(self, index: int, inputs: Inputs) -> Callable[[], None]:
        """What writes one set of inputs: only when it is called does the worker see any of it. All else is done here,
        before a clock runs."""
        views = self._input_views(index)

        def write() -> None:
            layout.copy_into(views, inputs.tensors)
            self.device.synchronize()

        return write

    def _hand_over(self, inputs: Inputs) -> None:
        assert self.inputs is not None and self.inputs.fd is not None
        assert self.outputs is not None and self.outputs.fd is not None
        message = {
            "do": "buffers",
            "copies": self.copies,
            "input_bytes": self.in_bytes,
            "output_bytes": self.out_bytes,
            "guard": asdict(self.guard) if self.guard else None,
            "layout": {
                "inputs": inputs.encoded,
                "input_specs": self.in_slots,
                "outputs": self.structure,
                "output_specs": self.out_slots,
            },
        }
        self.party.ask(message, (self.inputs.fd, self.outputs.fd))

    def poison_outputs(self) -> None:
        """Finite noise, far from any honest answer: what a launch does not write is wrong, never lucky."""
        for view in (view for index in range(self.copies) for view in self._output_views(index)):
            if view.is_floating_point():
                view.normal_(generator=self.poison)
                view.mul_(min(POISON_AMPLITUDE, torch.finfo(view.dtype).max / 64))
            elif view.dtype == torch.bool:
                view.view(torch.uint8).random_(0, 2, generator=self.poison)
            else:
                view.random_(generator=self.poison)

    def forward(self, timeout_s: float | None = None, own_memory: layout.Guard | None = None) -> dict[str, Any]:
        """Have the worker launch once and deliver. Raises CandidateFailure.

        ``own_memory``: what is to lie around all that torch allocates meanwhile.
        """
        message: dict[str, Any] = {"do": "forward", "forward_seed": FORWARD_SEED}
        if own_memory is not None:
            message["own_memory"] = asdict(own_memory)
        return self.party.ask(message, timeout_s=timeout_s)

    def take(self) -> list[torch.Tensor]:
        """Copy the delivered outputs to private memory, which no worker maps."""
        return [view.clone() for view in self._output_views()]

    def private_outputs(self) -> list[list[torch.Tensor]]:
        """Room for every set of outputs in private memory, made before a clock runs: allocating may take longer."""
        return [[torch.empty_like(view) for view in self._output_views(index)] for index in range(self.copies)]

    def taker(self, room: list[torch.Tensor], index: int) -> Callable[[], None]:
        """What copies one set of delivered outputs to private memory; done when it returns."""
        views = self._output_views(index)

        def take() -> None:
            for mine, shared in zip(room, views, strict=True):
                mine.copy_(shared)
            self.device.synchronize()

        return take

    def _input_views(self, index: int = 0) -> list[torch.Tensor]:
        assert self.inputs is not None and self.inputs.tensor is not None
        return layout.views(layout.nth_set(self.inputs.tensor, self.in_bytes, index), self.in_slots)

    def _output_views(self, index: int = 0) -> list[torch.Tensor]:
        assert self.outputs is not None and self.outputs.tensor is not None
        return layout.views(layout.nth_set(self.outputs.tensor, self.out_bytes, index), self.out_slots)

    def release_outputs(self) -> None:
        if self.outputs is not None:
            self.outputs.close()
            self.outputs = None

    def inputs_unchanged(self, inputs: Inputs) -> bool:
        """Whether the shared inputs still hold exactly what the judge draws again from its seed (NaN included)."""
        return all(same_bits(shared, mine) for shared, mine in zip(self._input_views(), inputs.tensors, strict=True))

    def gaps_unchanged(self) -> bool:
        """Whether what lies around the shared inputs is still rubbish; True where there is no guard."""
        if self.guard is None:
            return True
        assert self.inputs is not None and self.inputs.tensor is not None
        return layout.is_between(self.inputs.tensor[: self.in_bytes], self.in_slots, self.guard.rubbish)

    def close(self) -> None:
        for buffer in (self.inputs, self.outputs):
            if buffer is not None:
                buffer.close()
        self.inputs = self.outputs = None


def input_plan(inputs: Inputs, guard: layout.Guard | None = None) -> tuple[list[layout.Slot], int]:
    """Slots for these inputs in a shared buffer, and the bytes of one set."""
    specs = [layout.spec_of(t) for t in inputs.tensors]
    return layout.plan(specs, [layout.dense_stride(t) for t in inputs.tensors], guard)


def same_bits(a: torch.Tensor, b: torch.Tensor, chunk: int = 1 << 25) -> bool:
    """Whether two tensors of one shape and dtype hold the same bytes, NaN included.

    ``chunk``: of words, or of bytes where a tensor does not consist of whole words.
    """
    if a.stride() != b.stride():
        b = b.contiguous()
    flat_a, flat_b = (t.as_strided((t.numel(),), (1,)).view(torch.uint8) for t in (a, b))
    if flat_a.numel() % 8 == 0 and all(t.storage_offset() % 8 == 0 for t in (flat_a, flat_b)):
        flat_a, flat_b = flat_a.view(torch.int64), flat_b.view(torch.int64)
    return all(
        torch.equal(flat_a[start : start + chunk], flat_b[start : start + chunk])
        for start in range(0, flat_a.numel(), chunk)
    )
