"""Inside the worker: torch's extension builder, redirected into the candidate's private build directory.

The candidate calls ``load_inline`` or ``load`` as it always does. The request is identified by its content (sources,
flags, torch, architecture), so that a later stage finds what an earlier one built, whatever name, process id or
directory the candidate chose; no build can wait for, or overwrite, another candidate's.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kbverified.compilation.slim_build import SlimHeaders, no_dependency_files
from kbverified.compilation.slim_choice import NeedsFull

DONE = "kbv-build.json"

# A compiler that says so failed for the machine's sake: the next stage, or run, may have more luck.
_PASSING = ("No space left on device", "Killed signal", "Cannot allocate memory", "out of memory")


class BuildFailed(RuntimeError):
    """Raised into the candidate when its extension does not build, with the builder's own text."""


class Hooks:
    """Replaces torch.utils.cpp_extension.load and load_inline in this process."""

    def __init__(self, directory: Path, writable: bool, headers: Path | None, report: Callable[[dict[str, Any]], None]):
        """``headers``: the folder of slim headers (``slim_tree.py``), None to build with torch's alone."""
        self.directory = directory
        self.writable = writable
        self.slim = SlimHeaders(headers) if headers is not None else None
        self.report = report
        self.failures: list[BuildFailed] = []
        self._loaded: dict[str, Any] = {}

    def install(self) -> None:
        from torch.utils import cpp_extension

        originals: dict[str, Callable[..., Any]] = {
            "load_inline": cpp_extension.load_inline,
            "load": cpp_extension.load,
        }

        def load_inline(name: str, cpp_sources: Any, *args: Any, **kwargs: Any) -> Any:
            return self.request(originals["load_inline"], name, cpp_sources, args, kwargs)

        def load(name: str, sources: Any, *args: Any, **kwargs: Any) -> Any:
            return self.request(originals["load"], name, sources, args, kwargs)

        cpp_extension.load_inline = load_inline
        cpp_extension.load = load

    def request(self, build: Callable[..., Any], name: str, sources: Any, args: Any, kwargs: Any) -> Any:
        """Serve one build request: from this process, from the build directory, or by building."""
        import inspect

        bound = inspect.signature(build).bind(name, sources, *args, **kwargs)
        arguments = {k: _copied(v) for k, v in bound.arguments.items()}
        key = request_key(build.__name__, arguments)
        if key in self._loaded:
            return self._loaded[key]
        folder = self.directory / key
        known = _read_done(folder)
        if known is not None and "failed" in known:
            # A compiler gives the same answer twice: most candidates that fail to build fall back, and would
            # otherwise build in vain in every stage, with the device held.
            raise self._failed(BuildFailed(known["failed"]), arguments["name"], key, known["failed"])
        if known is not None:
            module = _import_built(folder, known["module"], arguments.get("is_python_module", True))
            self.report({"name": str(name)[:200], "key": key, "cached": True, "ok": True})
        else:
            module = self._build(build, key, folder, arguments)
        self._loaded[key] = module
        return module

    def _build(self, build: Callable[..., Any], key: str, folder: Path, arguments: dict[str, Any]) -> Any:
        if not self.writable:  # sealed: what the gate did not build is built for this process alone
            folder = Path(os.environ.get("TMPDIR", "/tmp")) / "kbv-build" / key
        folder.mkdir(parents=True, exist_ok=True)
        asked = str(arguments["name"])
        arguments["name"] = module_name(asked, key, arguments)
        arguments["build_directory"] = str(folder)
        arguments["verbose"] = False
        start = time.monotonic()
        try:
            module, headers = self._try_builds(build, folder, arguments)
        except (RuntimeError, OSError, ValueError, TypeError) as error:
            text = f"building extension {asked!r} failed: {error}"
            if self.writable and "Error building extension" in text and not any(word in text for word in _PASSING):
                (folder / DONE).write_text(json.dumps({"failed": text[-60000:]}))
            raise self._failed(BuildFailed(text), asked, key, text, _since(start)) from error
        done = {"module": arguments["name"], "sha256": _library_sha256(folder, arguments["name"])}
        (folder / DONE).write_text(json.dumps(done))
        _drop_objects(folder)
        log = f"headers: {headers}"
        self.report(
            {"name": asked[:200], "key": key, "ok": True, "cached": False, "seconds": _since(start), "log": log}
        )
        return module

    def _try_builds(self, build: Callable[..., Any], folder: Path, arguments: dict[str, Any]) -> tuple[Any, str]:
        """Build with slim headers, then with torch's own: (what the builder gave, which headers it read).

        Whatever goes wrong with slim headers is no verdict and reaches no log: torch's own build tells.
        """
        if self.slim is None:
            return build(**arguments), "full"
        tried = folder / "slim-tried"
        if tried.exists():  # it met a time limit, or took the process down: that shall not happen twice
            return build(**arguments), "full: an earlier try with slim headers did not end"
        try:
            tried.touch()
            module = self._build_slim(build, folder, arguments, ("cpp", "cuda"))
            tried.unlink()
            return module, "; full for ".join(["slim", *self.slim.left_full])[:300]
        except NeedsFull as reason:
            return build(**arguments), f"full: {reason}"[:300]
        except Exception as error:  # of our headers' making or the candidate's
            why = f"full after slim: {_first_error(f'{type(error).__name__}: {error}')}"[:300]
            only_cuda = _only_cuda_failed(str(error))
        _forget_attempt(str(arguments["name"]), folder, keep=("main.o",) if only_cuda else ())
        if only_cuda and (folder / "main.o").exists():
            # The bindings are made: what is left to say is said by nvcc, over torch's own headers.
            try:
                return self._build_slim(build, folder, arguments, ("cpp",)), why
            except Exception as error:
                if _only_cuda_failed(str(error)):
                    raise
            _forget_attempt(str(arguments["name"]), folder)
        return build(**arguments), why

    def _build_slim(
        self, build: Callable[..., Any], folder: Path, arguments: dict[str, Any], kinds: tuple[str, ...]
    ) -> Any:
        assert self.slim is not None
        changed = self.slim.arguments(build.__name__, arguments, folder, kinds)
        with no_dependency_files():
            return build(**{name: _copied(value) for name, value in changed.items()})

    def _failed(
        self, failure: BuildFailed, asked: Any, key: str, text: str, seconds: float | None = None
    ) -> BuildFailed:
        """Remember and report a build that failed."""
        self.failures.append(failure)
        report = {"name": str(asked)[:200], "key": key, "ok": False, "cached": seconds is None, "log": text[-6000:]}
        self.report({**report, "seconds": seconds})
        return failure


def request_key(function: str, arguments: dict[str, Any]) -> str:
    """Content hash of a build request. Source files named by ``load`` enter by their bytes, names do not."""
    content = {k: v for k, v in arguments.items() if k not in ("name", "build_directory", "verbose")}
    if function == "load":
        named = content.get("sources")
        content["sources"] = [
            Path(path).read_bytes().decode("utf-8", "replace")
            for path in ([named] if isinstance(named, str) else named or [])
        ]
    content["function"] = function
    if not arguments.get("is_python_module", True):
        content["name"] = arguments["name"]  # registers torch.ops under this very name
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def module_name(asked: str, key: str, arguments: dict[str, Any]) -> str:
    """A name that no other build has, unless the source itself fixes the module's name."""
    text = json.dumps([arguments.get("cpp_sources"), arguments.get("cuda_sources")], default=str)
    fixed = re.search(r"PYBIND11_MODULE\(\s*(?!TORCH_EXTENSION_NAME)(\w+)", text)
    if fixed or not arguments.get("is_python_module", True):
        return asked
    return f"kbv_{key[:16]}"


def _import_built(folder: Path, module: str, is_python_module: bool) -> Any:
    library = folder / f"{module}.so"
    if not is_python_module:
        import torch

        torch.ops.load_library(str(library))
        return str(library)
    spec = importlib.util.spec_from_file_location(module, library)
    if spec is None or spec.loader is None:
        raise ImportError(f"{library} is no extension module")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def _read_done(folder: Path) -> dict[str, Any] | None:
    """What is known of an earlier build; None where there was none, or its library is not what it was.

    A library that a full disk or a lost machine cut short is built again: its import error would be a verdict.
    """
    try:
        known = json.loads((folder / DONE).read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(known, dict):
        return None
    if isinstance(known.get("failed"), str):
        return known
    module = known.get("module")
    if not isinstance(module, str) or not isinstance(known.get("sha256"), str):
        return None
    return known if known["sha256"] == _library_sha256(folder, module) else None


def _library_sha256(folder: Path, module: str) -> str | None:
    try:
        return hashlib.sha256((folder / f"{module}.so").read_bytes()).hexdigest()
    except (OSError, ValueError):
        return None


def _only_cuda_failed(text: str) -> bool:
    """Whether ninja names objects of CUDA sources, and nothing else, as what failed."""
    failed = re.findall(r"^FAILED: (?:\[code=\d+\] )?(\S+)", text, re.MULTILINE)
    return bool(failed) and all(name.endswith(".cuda.o") for name in failed)


def _forget_attempt(name: str, folder: Path, keep: tuple[str, ...] = ()) -> None:
    """As if nothing had been tried: torch's builder would give a second build of one name another name."""
    from torch.utils import cpp_extension

    getattr(cpp_extension.JIT_EXTENSION_VERSIONER, "entries", {}).pop(name, None)
    for path in (*folder.glob("*.o"), folder / f"{name}.so", folder / "build.ninja"):
        if path.name not in keep:
            path.unlink(missing_ok=True)


def _first_error(text: str) -> str:
    """The line of a compiler's output that says what is wrong."""
    lines = [line.strip() for line in text.splitlines()]
    return next(
        (line for line in lines if re.search(r"\berror\b\s*:|undefined symbol", line)), lines[0] if lines else ""
    )


def _drop_objects(folder: Path) -> None:
    """Objects are most of a build's bytes and nothing reads them again."""
    for path in folder.glob("*.o"):
        path.unlink(missing_ok=True)


def _copied(value: Any) -> Any:
    """load_inline inserts into the caller's lists; the request's identity must not move under it."""
    return list(value) if isinstance(value, list | tuple) else value


def _since(start: float) -> float:
    return round(time.monotonic() - start, 3)
