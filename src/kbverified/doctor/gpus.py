"""The GPUs as driver and NVML describe them, and what of it is in the way. Nothing is set, no CUDA context is made.

``read`` asks, ``findings`` judges: the second is pure.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kbverified import device_choice, lease
from kbverified.doctor.finding import Finding, fail, ok, size, warn
from kbverified.protocol import TIMING_DROP_REASONS

REASONS = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks",
}
"""Clock event reasons of NVML (nvml.h, nvmlClocksEventReason*)."""

COMPUTE_MODES = ("default", "exclusive thread", "prohibited", "exclusive process")
"""nvmlComputeMode_t."""


@dataclass(frozen=True)
class GpuState:
    """One GPU now. None: not answered."""

    gpu: lease.Gpu
    visible: bool
    used_bytes: int | None = None
    mig: bool | None = None
    compute_mode: int | None = None
    persistence: bool | None = None
    sm_clock_mhz: int | None = None
    max_sm_clock_mhz: int | None = None
    reasons: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    processes: tuple[int, ...] | None = None
    """Pids that have a context on it."""


@dataclass(frozen=True)
class Machine:
    """All GPUs, and what is known of them together."""

    gpus: tuple[GpuState, ...]
    why_none: str | None
    """Why CUDA cannot be used here, by device_choice.why_no_gpu; None where it can."""
    nvml: str | None
    """Why NVML says nothing; None where it answers."""
    driver_cuda: str | None = None
    """The newest CUDA that the driver runs, as ``13.0``."""


def read() -> Machine:
    """Ask nvidia-smi and NVML. Raises nothing of theirs: what they do not say is None."""
    visible = {gpu.uuid for gpu in lease.visible_gpus()}
    visible |= {whole for whole, parts in lease.mig_instances().items() if any(p.uuid in visible for p in parts)}
    found = lease.installed_gpus()
    why_none = device_choice.why_no_gpu()
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception as error:  # no package, no driver
        states = tuple(GpuState(gpu, gpu.uuid in visible) for gpu in found)
        return Machine(states, why_none, f"{type(error).__name__}: {error}")
    try:
        states = tuple(_state(pynvml, gpu, gpu.uuid in visible) for gpu in found)
        version = _asked(lambda: int(pynvml.nvmlSystemGetCudaDriverVersion_v2()))
    finally:
        pynvml.nvmlShutdown()
    cuda = f"{version // 1000}.{version % 1000 // 10}" if version else None
    return Machine(states, why_none, None, cuda)


def _asked(question: Callable[[], Any]) -> Any:
    """An answer of NVML; None where this GPU or this package does not know the question."""
    try:
        return question()
    except Exception:
        return None


def _state(nvml: Any, gpu: lease.Gpu, visible: bool) -> GpuState:
    handle = _asked(lambda: nvml.nvmlDeviceGetHandleByUUID(gpu.uuid))
    if handle is None:
        return GpuState(gpu, visible)

    def ask(function: str, *more: Any) -> Any:
        return _asked(lambda: getattr(nvml, function)(handle, *more))

    memory, mig = ask("nvmlDeviceGetMemoryInfo"), ask("nvmlDeviceGetMigMode")
    processes = ask("nvmlDeviceGetComputeRunningProcesses")
    power, limit = ask("nvmlDeviceGetPowerUsage"), ask("nvmlDeviceGetPowerManagementLimit")
    persistence = ask("nvmlDeviceGetPersistenceMode")
    return GpuState(
        gpu,
        visible,
        used_bytes=int(memory.used) if memory is not None else None,
        mig=bool(mig[0]) if mig is not None else None,
        compute_mode=ask("nvmlDeviceGetComputeMode"),
        persistence=bool(persistence) if persistence is not None else None,
        sm_clock_mhz=ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
        max_sm_clock_mhz=ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
        reasons=ask("nvmlDeviceGetCurrentClocksThrottleReasons"),
        temperature_c=ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
        power_w=power / 1e3 if power is not None else None,
        power_limit_w=limit / 1e3 if limit is not None else None,
        processes=tuple(int(p.pid) for p in processes) if processes is not None else None,
    )


# --- what it means ------------------------------------------------------------------------------------------


def findings(machine: Machine, wanted: str, torch: Mapping[str, Any]) -> Iterator[Finding]:
    """Lines about all GPUs. ``wanted``: auto, cuda or cpu; ``torch``: the probe's facts, empty without."""
    seen = [state for state in machine.gpus if state.visible]
    if machine.why_none is not None or not seen:
        why = machine.why_none or "none is visible: see CUDA_VISIBLE_DEVICES"
        if wanted == "cuda":
            yield fail("GPU", why, "use a machine with an NVIDIA GPU and its driver, or --device cpu")
        else:
            yield warn("GPU", why, "times of the CPU are no findings about GPUs: measure on a machine with one")
        return
    yield from _together(machine, seen)
    for state in machine.gpus:
        if state.visible:
            yield from of_one(state, f"GPU {machine.gpus.index(state)}")
            yield from code_for(state.gpu, torch)
    if machine.nvml is not None:
        todo = "pip install nvidia-ml-py: without it throttled rounds are not noticed"
        yield warn("NVML", machine.nvml, todo)


def _together(machine: Machine, seen: Sequence[GpuState]) -> Iterator[Finding]:
    set_to = os.environ.get("CUDA_VISIBLE_DEVICES")
    value = (
        f"{len(seen)} of {len(machine.gpus)} visible, CUDA_VISIBLE_DEVICES {'not set' if set_to is None else set_to}"
    )
    kinds = {state.gpu.name for state in seen}
    if len(kinds) > 1:
        todo = "let CUDA_VISIBLE_DEVICES name GPUs of one kind: records of several do not go into one table"
        yield warn("GPUs", f"{value}; of several kinds: {', '.join(sorted(kinds))}", todo)
    else:
        yield ok("GPUs", value)


def of_one(state: GpuState, name: str) -> Iterator[Finding]:
    """Lines about one GPU: what it is, who else is on it, how its clock stands."""
    gpu = state.gpu
    value = f"{gpu.name}, compute capability {gpu.compute_capability}, driver {gpu.driver}, {gpu.uuid}"
    if state.mig:
        todo = "use a GPU without MIG, or have an administrator turn it off: devices are leased whole"
        yield fail(name, f"{value}: MIG is on", todo)
    elif state.compute_mode in (1, 2, 3):
        todo = "have an administrator set compute mode default: judge and workers share the GPU"
        yield fail(name, f"{value}: compute mode {COMPUTE_MODES[state.compute_mode]}", todo)
    else:
        yield ok(name, value)
    yield _use(state, f"{name} memory")
    yield from _clock(state, f"{name} clock")


def _use(state: GpuState, name: str) -> Finding:
    total = state.gpu.memory_mib << 20
    value = f"{size(state.used_bytes)} of {size(total)} used"
    if state.processes:
        value += f"; processes {', '.join(map(str, state.processes))} have a context on it"
        return warn(
            name, value, "end them, or let CUDA_VISIBLE_DEVICES name another GPU: they disturb times and memory"
        )
    if state.used_bytes is not None and state.used_bytes > total // 10:
        return warn(name, value, "find out who uses it (nvidia-smi): it disturbs times and memory")
    return ok(name, value)


def reasons_text(reasons: int) -> str:
    """Names of the clock event reasons in a mask."""
    names = [text for bit, text in REASONS.items() if reasons & bit]
    return ", ".join(names) or "nothing holds it back"


def _clock(state: GpuState, name: str) -> Iterator[Finding]:
    if state.sm_clock_mhz is None:
        return
    parts = [f"{state.sm_clock_mhz} of {state.max_sm_clock_mhz} MHz"]
    if state.reasons is not None:
        parts.append(reasons_text(state.reasons))
    if state.temperature_c is not None:
        parts.append(f"{state.temperature_c} C")
    if state.power_w is not None and state.power_limit_w is not None:
        parts.append(f"{state.power_w:.0f} of {state.power_limit_w:.0f} W")
    if state.persistence is False:
        parts.append("persistence mode off")
    value = ", ".join(parts)
    if (state.reasons or 0) & TIMING_DROP_REASONS:
        yield warn(name, value, "let it cool or mend its power: rounds under these reasons are dropped")
    elif (state.reasons or 0) & 0x2:
        yield warn(
            name, value, "application clocks are set: reset them (nvidia-smi -rac), or say so beside the numbers"
        )
    else:
        yield ok(name, value)


def code_for(gpu: lease.Gpu, torch: Mapping[str, Any]) -> Iterator[Finding]:
    """Whether this build of torch has code for the GPU."""
    built = torch.get("architectures") or []
    if built and not runs_on(gpu.compute_capability, built):
        value = f"has code for {', '.join(built)}, not for compute capability {gpu.compute_capability} ({gpu.name})"
        yield fail("torch on it", value, "install a torch build for this GPU: see pytorch.org")


def runs_on(capability: str, built: Sequence[str]) -> bool:
    """Whether code for these architectures runs: binaries (``sm_80``) within a major version and upwards, PTX
    (``compute_80``) upwards. CUDA C++ Programming Guide, sections 3.1.2 and 3.1.3."""
    major, _, minor = capability.partition(".")
    for name in built:
        kind, _, number = name.partition("_")
        digits = "".join(c for c in number if c.isdigit())
        of_major, of_minor = int(digits[:-1] or 0), int(digits[-1:] or 0)
        if kind == "compute" and (of_major, of_minor) <= (int(major), int(minor)):
            return True
        if kind == "sm" and of_major == int(major) and of_minor <= int(minor):
            return True
    return False


def driver(machine: Machine, torch_cuda: str | None) -> Iterator[Finding]:
    """The driver beside the CUDA that torch was built for: it runs every CUDA of its own major version and older."""
    if machine.driver_cuda is None or torch_cuda is None:
        return
    value = f"runs CUDA up to {machine.driver_cuda}, torch is for {torch_cuda}"
    if int(machine.driver_cuda.split(".")[0]) < int(torch_cuda.split(".")[0]):
        yield fail("driver", value, "install a newer driver, or a torch for an older CUDA")
    else:
        yield ok("driver", value)
