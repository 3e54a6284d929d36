"""Launches of the model on what lies in the judge's buffers: once for an answer, timed, in a batch, for its memory."""

from __future__ import annotations

from typing import Any

from kbverified.bootstrap import heap
from kbverified.bootstrap.state import Failed, State, text_of, writable


class Launches(State):
    """The messages about buffers and launches."""

    def do_buffers(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Map the judge's input and output buffer, each with room for ``copies`` sets; forget earlier ones."""
        for buffer in (self.inputs_buffer, self.outputs_buffer):
            if buffer is not None:
                buffer.close()
        self.set_bytes = (message["input_bytes"], message["output_bytes"])
        self.layout, self.guard = message["layout"], message["guard"]
        self.inputs_buffer, self.outputs_buffer = (
            self.device.attach(fd, message["copies"] * nbytes, self._closed(message["copies"], nbytes, specs))
            for fd, nbytes, specs in zip(fds, self.set_bytes, ("input_specs", "output_specs"), strict=True)
        )
        return {"ok": True}

    def _closed(self, copies: int, set_bytes: int, specs: str) -> list[tuple[int, int]] | None:
        """What of a buffer nobody may touch; None where it is not guarded."""
        from kbverified import layout

        if not self.guard or not self.guard["closed"]:
            return None
        found = layout.gaps(self.layout[specs], self.guard["page_bytes"], self.guard["gap_bytes"])
        return [(index * set_bytes + start, size) for index in range(copies) for start, size in found]

    def _arguments(self, index: int = 0) -> list[Any]:
        """The arguments of set ``index`` of the inputs."""
        from kbverified import codec, layout

        mine = layout.nth_set(self.inputs_buffer.tensor, self.set_bytes[0], index)
        return codec.decode(self.layout["inputs"], layout.views(mine, self.layout["input_specs"]))

    def _launch(self, arguments: list[Any]) -> Any:
        return self.model(*arguments)

    def do_forward(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """One launch; its outputs are checked for kind and copied into the judge's output buffer."""
        import torch

        arguments = self._arguments()
        if self.guard:
            self.device.fill_free_memory([*self.set_bytes] * 2, self.guard["rubbish"])
        torch.manual_seed(message["forward_seed"])
        if message.get("own_memory"):
            try:
                result = self._launch_between_guards(arguments, message["own_memory"])
            except Failed:
                raise
            except BaseException as error:  # nothing is said of who does not run that way
                return {"ok": True, "not_guarded": writable(f"{type(error).__name__}: {text_of(error)}"[:300])}
        else:
            result = self._guard("runtime_error", lambda: self._finish(self._launch(arguments)))
        self._deliver(result)
        del result
        self.device.release_cached()  # what only torch's allocator still holds is the judge's to use
        counts = {"compiled": _compiled_graphs()} if self.compiles else {}
        return {"ok": True, "builds": self.builds, **counts}

    def _launch_between_guards(self, arguments: list[Any], guard: dict[str, Any]) -> Any:
        """One launch in which guards lie around what torch allocates: closed ones end the process, open ones are
        looked at. Raises what the candidate raises, and Failed."""
        from kbverified.hardened.own_memory import OwnMemory
        from kbverified.layout import Guard

        own = OwnMemory(self.device, Guard(**guard))
        with own:
            result = self._finish(self._launch(arguments))
        if (beyond := own.overwritten()) is not None:
            raise Failed("runtime_error", f"it {beyond}")
        return result

    def _finish(self, result: Any) -> Any:
        self.device.synchronize()
        return result

    def _deliver(self, result: Any, index: int = 0, own_order: bool = False) -> list[Any]:
        """Check an output and copy it into set ``index`` of the judge's buffer; the strides that it has there.

        ``own_order``: a permuted but gapless output is copied as it lies, as fast as a contiguous one.
        """
        from kbverified import layout

        problem = layout.mismatch(
            result, self.layout["outputs"], self.layout["output_specs"], self.device.torch_device.type
        )
        if problem is not None:
            raise Failed(*problem)
        tensors = layout.leaves(result)
        if layout.aliases(tensors, self.inputs_buffer.tensor):
            raise Failed("aliases_input", "an output shares memory with an input")
        mine = layout.nth_set(self.outputs_buffer.tensor, self.set_bytes[1], index)
        strides = [layout.dense_stride(tensor) if own_order else None for tensor in tensors]
        slots = [{**slot, "stride": s} for slot, s in zip(self.layout["output_specs"], strides, strict=True)]
        self._guard("runtime_error", lambda: layout.copy_into(layout.views(mine, slots), tensors))
        self.device.synchronize()
        return [stride and list(stride) for stride in strides]

    def do_time(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Launches that make everything hot, then timed ones; the last output is delivered."""
        arguments = self._arguments()
        if self.heap_is_touched:  # its models are made, and a clock begins to run
            heap.map_again()
            self.heap_is_touched = False
        for _ in range(message["hot"]):
            self._guard("runtime_error", lambda: self._launch(arguments))
        self._guard("runtime_error", self.device.synchronize)
        times: list[float] = []
        host_bound = 0
        result = None
        for _ in range(message["repetitions"]):
            result = None  # so that an output's memory is there again for the next launch
            time_ms, result = self._timed_launch(arguments, message)
            times.append(time_ms)
            host_bound += bool(self.device.was_ahead_of_host())
        if message.get("deliver"):
            self._deliver(result)
        return {"times_ms": times, "host_bound": host_bound}

    def _timed_launch(self, arguments: list[Any], message: dict[str, Any]) -> tuple[float, Any]:
        """One launch with the cache flushed before it: (milliseconds, result)."""
        import torch

        torch.manual_seed(message["forward_seed"])
        flushes, cover_ms = message["queued_flushes"], message["cover_ms"]
        time_cold_ms = self.device.time_cold_ms
        return self._guard("runtime_error", lambda: time_cold_ms(lambda: self._launch(arguments), flushes, cover_ms))

    def do_batch(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """One launch on one set of inputs, as it is timed otherwise; its output is delivered before the answer.

        The judge has its own clock on this.
        """
        self.channel.spin_s = message["spin_s"]
        index = message["index"]
        time_ms, result = self._timed_launch(self._arguments(index), message)
        return {"times_ms": [time_ms], "strides": self._deliver(result, index, own_order=True)}

    def do_settle(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Give cached memory back, so that the judge's reading of the device starts from what really is held."""
        self.device.synchronize()
        self.device.release_cached()
        return {"ok": True}

    def do_memory(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """One forward between two readings of the allocator; the judge reads the device meanwhile. Then deliver."""
        import torch

        arguments = self._arguments()
        torch.manual_seed(message["forward_seed"])
        before = self.device.allocated_bytes()
        self.device.reset_peak()
        result = self._guard("runtime_error", lambda: self._finish(self._launch(arguments)))
        peak = self.device.peak_bytes()
        self._deliver(result)
        return {"before_bytes": before, "peak_bytes": peak}

    def do_flags(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        from kbverified import precision

        return {"flags": precision.read_flags().model_dump()}


def _compiled_graphs() -> dict[str, int]:
    """What torch.compile made of this process's model: graphs, falls back to eager torch, graphs found in a cache."""
    from torch._dynamo.utils import counters

    return {
        "graphs": int(counters["stats"]["unique_graphs"]),
        "graph_breaks": int(sum(counters["graph_break"].values())),
        "from_caches": int(counters["inductor"]["fxgraph_cache_hit"]),
    }
