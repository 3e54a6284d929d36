"""One parent and its mutants on the screening inputs: where does a mutant's output first differ, bit by bit?

Reads a request from standard input and prints one JSON line per kernel. Knows nothing of the gate, its distributions
or its tolerances. Kernels run in forks of this process, without a sandbox: run it where that may happen.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.mutation.screening import EQUAL
from kbverified import codec, problems
from kbverified.compilation.hooks import Hooks
from kbverified.protocol import FORWARD_SEED, WEIGHT_SEED

LIMIT_S = {"cpu": 60.0, "cuda": 120.0}
"""One kernel, all screening inputs. A kernel that hangs is one that differs."""
CHUNK = 1 << 24


def _rows(x: torch.Tensor) -> torch.Tensor:
    return torch.randn((*x.shape[:-1], 1), device=x.device, dtype=x.dtype) if x.dim() else torch.randn_like(x)


LAWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "as drawn": lambda x: x,
    "as drawn, again": lambda x: x,
    "negated, a tenth": lambda x: x * -0.1,
    "normal": torch.randn_like,
    "thousandfold": lambda x: x * 1e3,
    "a ten-thousandth": lambda x: x * 1e-4,
    "each row its scale": lambda x: x * torch.exp(2 * _rows(x)),
    "each row its offset": lambda x: x + 30 * _rows(x),
    "sorted": lambda x: x.sort(dim=-1).values if x.dim() else x,
    "sorted downwards": lambda x: x.sort(dim=-1, descending=True).values if x.dim() else x,
    "few values": lambda x: (x * 4).round() / 4,
    "spikes": lambda x: torch.where(torch.rand_like(x) < 0.002, torch.randn_like(x) * 1e4, torch.zeros_like(x)),
    "spike at each row's start": lambda x: _spike(x, 0),
    "spike at each row's end": lambda x: _spike(x, -1),
    "wide exponents": lambda x: torch.randn_like(x) * torch.exp2(torch.randint_like(x, -20, 11)),
    "tiny": lambda x: torch.randn_like(x) * 1e-6,
}
"""Of every floating-point input tensor, by name; the seed is the law's number, other than any that the gate draws."""
UNTOUCHED_WEIGHTS = 1
"""So many laws from the start use the weights that the constructor makes; the others move every parameter."""


def _spike(x: torch.Tensor, place: int) -> torch.Tensor:
    if x.dim():
        x = x.clone()
        x[..., place] = 1e3
    return x


def answers(source: Path, problem: Any, directory: Path, device: str) -> Iterator[tuple[str, str]]:
    """(law, sha256 of the outputs) for each law in turn. Raises what the kernel raises."""
    model = model_of(source, problem, directory, device)
    for number, (name, law) in enumerate(LAWS.items()):
        if number == UNTOUCHED_WEIGHTS:
            torch.manual_seed(7919)
            with torch.no_grad():
                for parameter in model.parameters():
                    scale = parameter.std() + 0.1 if parameter.numel() > 1 else 0.1
                    parameter.add_(torch.randn_like(parameter) * scale)
        torch.manual_seed(10_000 + number)
        drawn = draw(problem, device)
        values = [law(v) if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in drawn]
        values = [v.clone().to(device) if isinstance(v, torch.Tensor) else v for v in values]
        torch.manual_seed(FORWARD_SEED)
        with torch.no_grad():
            output = model(*values)
        yield name, _digest(output)


def model_of(source: Path, problem: Any, directory: Path, device: str) -> Any:
    """The candidate's ModelNew with the gate's weights, its extension from the build directory."""
    Hooks(directory, False, None, lambda report: None).install()
    namespace: dict[str, Any] = {"__name__": "kernel"}
    module = _load(source) if "triton" in source.read_text() else namespace
    if module is namespace:
        exec(compile(source.read_text(), str(source), "exec"), namespace)
    torch.manual_seed(WEIGHT_SEED)
    with torch.no_grad():
        return module["ModelNew"](*problem.get_init_inputs()).to(device)


def draw(problem: Any, device: str) -> list[Any]:
    """On the device where the problem lets us: some draw gigabytes."""
    state = torch.get_rng_state()
    if device != "cpu":
        with contextlib.suppress(RuntimeError, TypeError), torch.device(device):
            return list(problem.get_inputs())
        torch.set_rng_state(state)
    return list(problem.get_inputs())


def _load(source: Path) -> dict[str, Any]:
    """Triton reads a kernel's source again: it has to be a module in a file."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("kernel", source)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["kernel"] = module
    spec.loader.exec_module(module)
    return vars(module)


def _digest(output: Any) -> str:
    """Of every tensor's shape, dtype and bytes; one NaN is as good as another, and -0 as 0."""
    total = hashlib.sha256()
    tensors: list[torch.Tensor] = []
    codec.encode(output if isinstance(output, list | tuple) else [output], tensors)
    for tensor in tensors:
        tensor = tensor.detach().contiguous()
        if tensor.is_floating_point():
            tensor = torch.where(tensor.isnan(), torch.full_like(tensor, float("nan")), tensor + 0.0)
        total.update(f"{tuple(tensor.shape)} {tensor.dtype}".encode())
        flat = tensor.reshape(-1)
        if flat.device.type == "cpu":
            total.update(flat.view(torch.uint8).numpy().tobytes())
        else:
            for start in range(0, flat.numel(), CHUNK):
                total.update(str(_sum(flat[start : start + CHUNK])).encode())
    return total.hexdigest()


def _sum(values: torch.Tensor) -> int:
    """A 64-bit hash of a chunk where it lies: each byte times an odd number of its place, mod 2**64."""
    data = values.contiguous().view(torch.uint8).long() + 1
    places = torch.arange(data.numel(), device=data.device) * 0x5851F42D4C957F2D + 0x14057B7EF767814F
    return int((data * ((places ^ (places >> 29)) | 1)).sum())


def in_fork(work: Callable[[Callable[[Any], None]], None], limit_s: float) -> tuple[list[Any], str]:
    """Run work in a fork; what it said, and how it ended: ``done``, ``signal 11``, ``exit 1``, ``no answer``."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        code = 1
        try:
            signal.alarm(0)
            work(lambda value: _send(writer, value))
            code = 0
        except BaseException as error:  # the kernel's: a difference from a parent that raises nothing
            with contextlib.suppress(OSError):
                _send(writer, {"raised": f"{type(error).__name__}: {error}"[:300]})
        finally:
            os._exit(code)
    os.close(writer)
    data, until_s, late = b"", time.monotonic() + limit_s, False
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, until_s - time.monotonic()))
        if not ready:
            late = True
            os.kill(pid, signal.SIGKILL)
            break
        chunk = os.read(reader, 1 << 16)
        if not chunk:
            break
        data += chunk
    os.close(reader)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    end = "no answer" if late else "done" if status == 0 else f"signal {-status}" if status < 0 else f"exit {status}"
    return [json.loads(line) for line in data.splitlines()], end


def _send(writer: int, value: Any) -> None:
    os.write(writer, json.dumps(value).encode() + b"\n")


def screen_one(kernel: dict[str, Any], problem: Any, device: str, wanted: dict[str, str]) -> dict[str, Any]:
    """Where a mutant first differs from its parent's digests: its line of the list."""

    def work(say: Callable[[Any], None]) -> None:
        for name, digest in answers(Path(kernel["source"]), problem, Path(kernel["build"]), device):
            if wanted.get(name) not in (None, digest):
                say({"differs": name})
                return
            say({"equal": name})

    said, end = in_fork(work, LIMIT_S[device])
    equal = [line["equal"] for line in said if "equal" in line]
    last = said[-1] if said else {}
    if "differs" in last:
        reason = f"differs: {last['differs']}"
    elif end == "done":
        return {"id": kernel["id"], "outcome": "equal", "reason": f"{EQUAL} on {len(equal)} inputs"}
    else:
        reason = f"{end} after {len(equal)} equal inputs" + (f": {last['raised']}" if "raised" in last else "")
    return {"id": kernel["id"], "outcome": "differs", "reason": reason}


def main() -> int:
    """Exit code 0: every line was printed; 3: the parent does not run, or its digests cannot be had."""
    request = json.load(sys.stdin)
    torch.set_num_threads(1)
    device = request["device"]
    if device == "cuda":  # on the CPU guard.c does it
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
    problem = problems.load(Path(request["problem"]))
    parent = request["parent"]

    def run_parent(say: Callable[[Any], None]) -> None:
        for pair in answers(Path(parent["source"]), problem, Path(parent["build"]), device):
            say(pair)

    (first, end), (second, _) = (in_fork(run_parent, LIMIT_S[device]) for _ in range(2))
    if end != "done" or len(first) != len(LAWS):
        print(f"the parent {parent['id']} does not run on the screening inputs: {end} {first[-1:]}", file=sys.stderr)
        return 3
    again = {name: digest for name, digest in second}
    wanted = {name: digest for name, digest in first if again.get(name) == digest}
    for kernel in request["mutants"]:
        line = screen_one(kernel, problem, device, wanted)
        if line["outcome"] == "equal" and len(wanted) < len(LAWS):
            line = {"id": kernel["id"], "outcome": "differs", "reason": "the parent does not repeat bitwise"}
        print(json.dumps(line), flush=True)
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
