"""From a message of the judge's to a model on its device: the source is loaded, the model constructed and placed."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from pathlib import Path
from typing import Any

from kbverified.bootstrap import heap
from kbverified.bootstrap.state import Failed, State, writable
from kbverified.lease import UNTOUCHED_DRIVER

# Builds that a reply lists: each comes with the end of its log, and a message has a limit.
_BUILDS_TOLD = 20


class Start(State):
    """The messages that come before a launch."""

    def do_construct(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Load the source and construct the model before a device is held for it."""
        if message.get("compile"):
            _warm_compiler()
        self.constructed = self._construct(message)
        return {"ok": True}

    def do_driver(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Start the CUDA driver for its GPU, and touch memory for weights, before it is held."""
        from kbverified.devices import start_driver

        os.environ.update(message["environment"])
        start_driver(message["device"])
        self.heap_is_touched = heap.touch(message.get("weights_bytes", 0))
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
        self.dtype = message["dtype"]
        self._place_model(model, message.get("guard"))
        digests = _state_digests(self.model) if message.get("digests") else []
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
        self._place_model(self._made(factory, init_inputs, message), message["guard"])
        return {"weights": _state_digests(self.model)}

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


def _place(model: Any, device: Any, dtype: Any) -> Any:
    moved = model.to(device=device, dtype=dtype) if dtype is not None else model.to(device)
    return model if moved is None else moved


def _addresses(model: Any, device_type: str) -> set[int]:
    """Where on this kind of device parameters and buffers lie."""
    import itertools

    import torch

    every = itertools.chain(model.parameters(), model.buffers())
    return {t.data_ptr() for t in every if t.layout is torch.strided and t.device.type == device_type}


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


def _state_digests(model: Any) -> list[list[Any]]:
    """[name, shape, dtype, sha256] of each entry of the state dict, for the reason ``weights_differ``."""
    from kbverified.layout import state_digests

    try:
        return state_digests(model)
    except Exception:  # an odd state dict is no failure: the reason is just not available
        return []
