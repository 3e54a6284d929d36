"""The bootstrap in the candidate's process: the only code that executes a candidate.

It answers the judge's messages one by one. Everything it says is a claim: the candidate shares this process and can
change any of it. So it holds no seed of any input, no reference output and no verdict; it gets buffers that belong
to the judge, and what it reports is checked there.

Messages (JSON objects, one reply each): construct, open, start, rebuild, buffers, forward, time, batch, settle, memory,
flags, exit. A failure of the candidate is a reply with ``failure`` (a verdict) and ``detail``.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kbverified.compilation import jit_caches
from kbverified.lease import UNTOUCHED_DRIVER
from kbverified.sandbox import Channel, ChannelClosed

# The judge kills its workers; a worker that is forgotten ends by itself.
_PATIENCE_S = 24 * 3600.0
# Builds that a reply lists: each comes with the end of its log, and a message has a limit.
_BUILDS_TOLD = 20


class Failed(Exception):
    """The candidate failed in a way that has a name."""

    def __init__(self, verdict: str, detail: str):
        super().__init__(detail)
        self.verdict = verdict
        self.detail = detail


class Bootstrap:
    """State of one worker: a device, a model, and the judge's buffers."""

    def __init__(self, channel: Channel):
        self.channel = channel
        self.device: Any = None
        self.model: Any = None
        self.constructed: Any = None
        """A model that waits for a device: the baseline's, whose constructor is trusted and needs none."""
        self.class_and_arguments: tuple[Any, Any] | None = None
        """What the source defines, and its constructor's arguments as they came: for a second model."""
        self.compiles = False
        """The model goes through torch.compile."""
        self.hooks: Any = None
        self.builds: list[dict[str, Any]] = []
        self.dtype = "fp32"
        self.inputs_buffer: Any = None
        self.outputs_buffer: Any = None
        self.set_bytes = (0, 0)
        """Bytes of one set of inputs and of outputs, of which the buffers may hold several."""
        self.layout: dict[str, Any] = {}
        self.guard: dict[str, Any] | None = None
        """What lies around the tensors in the buffers: layout.Guard's fields."""

    def serve(self) -> None:
        """Answer until the judge says exit or goes away."""
        import torch
        import torch.utils.cpp_extension

        from kbverified import affinity, codec, distributions, layout, precision
        from kbverified.devices import prepare

        # Everything that a launch will need is imported now, before a device is held for it.
        del affinity, codec, distributions, layout, precision
        prepare(os.environ.pop("KBV_DEVICE"))
        torch.set_grad_enabled(False)
        self.channel.send({"ready": os.getpid()})
        while True:
            message, fds = self.channel.receive(_PATIENCE_S)
            self.channel.spin_s = 0.0
            if message.get("do") == "exit":
                return
            self.channel.send(self.answer(message, fds))

    def answer(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        handler = getattr(self, f"do_{message.get('do')}")
        try:
            return handler(message, fds)
        except Failed as failure:
            detail = writable(failure.detail[-4000:])
            return {"failure": failure.verdict, "detail": detail, "builds": self.builds}

    # --- start ----------------------------------------------------------------------------------------------
    def do_construct(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Load the source and construct the model before a device is held for it."""
        if message.get("compile"):
            _warm_compiler()
        self.constructed = self._construct(message)
        return {"ok": True}

    def do_driver(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Start the CUDA driver for the GPU that this worker will get, before it is held."""
        from kbverified.devices import start_driver

        os.environ.update(message["environment"])
        start_driver(message["device"])
        return {"ok": True}

    def do_open(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Open the device, on its cores. No code of a candidate runs."""
        from kbverified.devices import open_device

        self._settle_in(message)
        self.device = open_device(message["device"])
        return {"ok": True}

    def _settle_in(self, message: dict[str, Any]) -> None:
        """Environment, cores and threads as the judge wants them."""
        import torch

        from kbverified import affinity

        for name in UNTOUCHED_DRIVER:  # it was for the time before: candidates get torch as it is
            os.environ.pop(name, None)
        for name, value in message.get("environment", {}).items():
            os.environ[name] = value
        if message.get("cores"):
            affinity.pin(message["cores"])
        if message.get("threads"):
            torch.set_num_threads(int(message["threads"]))

    def do_start(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Open the device, load the source, construct the model from the weight seed, place it."""
        from kbverified import precision

        if message.get("dry_run"):
            self._settle_in(message)
            return self._dry_run(message)
        if self.device is None:
            self.do_open(message, fds)
        precision.set_mode(message["mode"])
        before = precision.read_flags().model_dump()
        model = self.constructed if self.constructed is not None else self._construct(message)
        self.constructed = None
        digests = _state_digests(model) if message.get("digests") else []
        self.dtype = message["dtype"]
        self._place_model(model, message.get("guard"))
        if message.get("compile"):
            self._compile(message["compile"])
        return {"flags": before, "weights": digests, "builds": self.builds}

    def _compile(self, options: dict[str, Any]) -> None:
        """The baseline of time-compile: the first launch will compile it, or find it in inductor's caches."""
        import torch
        import torch._inductor.config as inductor

        inductor.fallback_random = options["fallback_random"]
        inductor.compile_threads = options["threads"]
        if hasattr(inductor, "cpp_cache_precompile_headers"):
            inductor.cpp_cache_precompile_headers = False  # they lie outside its caches: every worker would make them
        self.model = torch.compile(self.model, backend=options["backend"], dynamic=options["dynamic"])
        self.compiles = True

    def _construct(self, message: dict[str, Any]) -> Any:
        factory, init_inputs = self._factory(message)
        return self._made(factory, init_inputs, message)

    def _made(self, factory: Any, init_inputs: Any, message: dict[str, Any]) -> Any:
        """A model; ``perturb``: with identity parameters that are not quite the identity."""
        from kbverified.hardened.weights import perturbed_identity

        with perturbed_identity(message["weight_seed"]) if message.get("perturb") else contextlib.nullcontext():
            return self._guard("init_error", lambda: factory(*init_inputs))

    def _place_model(self, model: Any, guard: dict[str, Any] | None) -> None:
        """Take a model to the device; where there is a guard, it lies around each of the model's weights.

        Where a guard is open, only around those that the device did not have before, and that move in any case.
        """
        import torch

        from kbverified.distributions import DTYPES
        from kbverified.hardened.own_memory import around_weight
        from kbverified.layout import Guard

        dtype = DTYPES[self.dtype] if self.dtype != "fp32" else None
        here = self.device.torch_device
        open_guard = guard and not guard["closed"] and isinstance(model, torch.nn.Module)
        stay = self._guard("init_error", lambda: _addresses(model, here.type)) if open_guard else set()
        self.model = self._guard("init_error", lambda: _place(model, here, dtype))
        if guard and isinstance(self.model, torch.nn.Module):

            def guarded(tensor: torch.Tensor) -> torch.Tensor:
                if tensor.layout is not torch.strided or tensor.data_ptr() in stay:
                    return tensor
                return around_weight(self.device, tensor, Guard(**guard))

            # As moving a model to a device does it, which every candidate has to bear.
            self._guard("init_error", lambda: self.model._apply(guarded))
        self.device.synchronize()

    def _factory(self, message: dict[str, Any]) -> tuple[Any, Any]:
        """The class that a source defines, and its constructor's arguments; the weights' seed is set."""
        import torch

        from kbverified import codec

        self._install_hooks(message)
        factory = self._load(message["source"], message["class"])
        self.class_and_arguments = (factory, message["init_inputs"])
        init_inputs = codec.decode(message["init_inputs"], [])
        torch.manual_seed(message["weight_seed"])
        return factory, init_inputs

    def do_rebuild(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Another model from another weight seed, in place of the one that there is. The source is not loaded again."""
        import torch

        from kbverified import codec

        assert self.class_and_arguments is not None
        factory, encoded = self.class_and_arguments
        self.model = None
        self.device.release_cached()
        init_inputs = codec.decode(encoded, [])
        torch.manual_seed(message["weight_seed"])
        model = self._made(factory, init_inputs, message)
        digests = _state_digests(model)
        self._place_model(model, message["guard"])
        return {"weights": digests}

    def _install_hooks(self, message: dict[str, Any]) -> None:
        from kbverified.compilation.hooks import Hooks

        header = message.get("header")

        def report(build: dict[str, Any]) -> None:
            if len(self.builds) < _BUILDS_TOLD:
                self.builds.append({**build, "log": writable(str(build.get("log", "")))})

        directory = Path(message["build_directory"])
        self.hooks = Hooks(directory, bool(message["build_writable"]), Path(header) if header else None, report)
        self.hooks.install()

    def _dry_run(self, message: dict[str, Any]) -> dict[str, Any]:
        """Compile stage: meet the build requests of import, and of constructor and one forward on fake tensors."""
        from kbverified.compilation import dry_run

        if message["device"] == "cuda":
            dry_run.pretend_gpu(message["arch"])
        factory, init_inputs = self._factory(message)
        met = None
        if message["call"]:  # False: nothing asks for an extension there
            met = dry_run.dry_forward(factory, init_inputs, message["inputs"], message["device"])
        failed = bool(self.hooks.failures) and met is not None and met.startswith("BuildFailed")
        return {"builds": self.builds, "met": met and writable(met), "failed_build": failed}

    def _load(self, source: str, class_name: str) -> Any:
        """Execute the source as a module and give its class."""
        import importlib.util

        # A path that ends in .py keeps inspect.getsource working, which Triton and others rely on.
        spec = importlib.util.spec_from_file_location("candidate", source)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["candidate"] = module
        loader = spec.loader
        self._guard("import_error", lambda: loader.exec_module(module))
        factory = getattr(module, class_name, None)
        if factory is None:
            raise Failed("no_model_new", f"the module defines no {class_name}")
        return factory

    def _guard(self, verdict: str, action: Callable[[], Any]) -> Any:
        """Run the candidate's code; what it raises becomes a verdict."""
        import torch

        try:
            return action()
        except SystemExit as error:
            raise Failed("crash", f"the candidate called sys.exit({error.code!r})") from None
        except (torch.OutOfMemoryError, MemoryError) as error:
            raise Failed("out_of_memory", str(error)) from None
        except BaseException as error:  # untrusted code: its end becomes a verdict
            if isinstance(error, RuntimeError) and "allocate memory" in _text(error):
                raise Failed("out_of_memory", _text(error)) from None  # how torch's CPU allocator says it
            if self.hooks is not None and any(failure in _chain(error) for failure in self.hooks.failures):
                verdict = "compile_error"
            raise Failed(verdict, "".join(traceback.format_exception(error))) from None

    # --- buffers and launches -------------------------------------------------------------------------------
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
                return {"ok": True, "not_guarded": writable(f"{type(error).__name__}: {_text(error)}"[:300])}
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
        for _ in range(message["hot"]):
            self._guard("runtime_error", lambda: self._launch(arguments))
        self._guard("runtime_error", self.device.synchronize)
        times: list[float] = []
        host_bound = 0
        result = None
        for _ in range(message["repetitions"]):
            result = None  # so that an output's memory is there again for the next launch
            time_ms, result = self._timed_launch(arguments, message["forward_seed"])
            times.append(time_ms)
            host_bound += bool(self.device.was_ahead_of_host())
        if message.get("deliver"):
            self._deliver(result)
        return {"times_ms": times, "host_bound": host_bound}

    def _timed_launch(self, arguments: list[Any], forward_seed: int) -> tuple[float, Any]:
        """One launch with the cache flushed before it: (milliseconds, result)."""
        import torch

        from kbverified.protocol import TIMING_QUEUED_FLUSHES

        torch.manual_seed(forward_seed)
        flushes = TIMING_QUEUED_FLUSHES[self.device.kind]
        time_cold_ms = self.device.time_cold_ms
        return self._guard("runtime_error", lambda: time_cold_ms(lambda: self._launch(arguments), flushes))

    def do_batch(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """One launch on one set of inputs, as it is timed otherwise; its output is delivered before the answer.

        The judge has its own clock on this.
        """
        self.channel.spin_s = message["spin_s"]
        index = message["index"]
        time_ms, result = self._timed_launch(self._arguments(index), message["forward_seed"])
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


def _place(model: Any, device: Any, dtype: Any) -> Any:
    moved = model.to(device=device, dtype=dtype) if dtype is not None else model.to(device)
    return model if moved is None else moved


def _addresses(model: Any, device_type: str) -> set[int]:
    """Where on this kind of device parameters and buffers lie."""
    import itertools

    import torch

    every = itertools.chain(model.parameters(), model.buffers())
    return {t.data_ptr() for t in every if t.layout is torch.strided and t.device.type == device_type}


def writable(text: str) -> str:
    """The text without lone surrogates: no file could hold them, and the judge takes no message that has one."""
    return text.encode("utf-8", "replace").decode()


def _warm_compiler() -> None:
    """Import torch.compile's parts and go once through its front end, which a first launch would take seconds for.

    On the CPU and without a back end: no device is touched, nothing is cached, and no trace is left.
    """
    import torch
    from torch._dynamo.utils import counters

    importlib.import_module("torch._inductor.compile_fx")
    torch.compile(torch.nn.Tanh(), backend="aot_eager")(torch.zeros(2))
    torch._dynamo.reset()
    counters.clear()


def _compiled_graphs() -> dict[str, int]:
    """What torch.compile made of this process's model: graphs, falls back to eager torch, graphs found in a cache."""
    from torch._dynamo.utils import counters

    return {
        "graphs": int(counters["stats"]["unique_graphs"]),
        "graph_breaks": int(sum(counters["graph_break"].values())),
        "from_caches": int(counters["inductor"]["fxgraph_cache_hit"]),
    }


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a candidate's own exception may not even have a text
        return ""


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    step: BaseException | None = error
    while step is not None and step not in found:
        found.append(step)
        step = step.__cause__ or step.__context__
    return found


def _state_digests(model: Any) -> list[list[Any]]:
    """[name, shape, dtype, sha256] of each entry of the state dict, for the reason ``weights_differ``."""
    from kbverified.layout import state_digests

    try:
        return state_digests(model)
    except Exception:  # an odd state dict is no failure: the reason is just not available
        return []


def main() -> int:
    """Serve the channel that the sandbox handed over."""
    channel = Channel.from_environment()
    jit_caches.unseal()
    with contextlib.suppress(ChannelClosed):
        Bootstrap(channel).serve()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
