"""A folder of slim headers, made once per toolchain by the trusted side; builds read it and cannot write it.

torch's operator headers each include what any operator could need, and torch/extension.h includes the neural network
library. Here the operator headers include what their declarations need, and the general headers begin with a small
base; an index says which other headers a source has to have (``slim_choice.py``). Nothing of torch is rewritten but
``#include`` lines: every declaration is torch's own text, read from the torch that is installed (``slim_headers.py``).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

from kbverified.compilation import cache
from kbverified.compilation.directory import exclusive
from kbverified.compilation.slim_compiler import Compiler
from kbverified.compilation.slim_headers import kept_sources, write, write_headers
from kbverified.compilation.slim_index import make_index
from kbverified.compilation.toolchain import Toolchain, torch_folder

VERSION = 2
"""Counted up when what this module makes changes."""
DEFINE = "-DAT_PER_OPERATOR_HEADERS"
INDEX = "index.json"
KEPT = "kbv/kept.a"
"""Archive of what torch's headers define inline and the slim ones do not: the linker takes what is called."""
RETRY_S = 3600.0


@contextlib.contextmanager
def in_use(root: Path, toolchain: Toolchain) -> Iterator[Path | None]:
    """``slim_tree``, kept from being swept meanwhile (``cache.sweep``)."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(cache.in_use(_place(root, toolchain)))
        except OSError as error:
            print(f"no slim headers: {error}", file=sys.stderr)
            yield None
            return
        yield slim_tree(root, toolchain)


def slim_tree(root: Path, toolchain: Toolchain) -> Path | None:
    """Folder of slim headers for this toolchain; made on first use (about 25 s), shared by all later builds.

    None where it cannot be made (its ``failed.log`` says why): builds then read the plain headers. Safe under
    parallel use.
    """
    try:
        folder = _place(root, toolchain)
        if not (folder / INDEX).exists():
            folder.mkdir(parents=True, exist_ok=True)
            folder.parent.chmod(0o755)  # whatever the umask: workers have uids of their own
            with locked(folder):
                if not (folder / INDEX).exists() and not _made(folder, toolchain):
                    return None
        return folder
    except OSError as error:  # no room, no right: no reason to build nothing
        print(f"no slim headers: {error}", file=sys.stderr)
        return None


def locked(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Hold what is being made in a folder. Raises OSError."""
    return exclusive(folder.with_suffix(".lock"), 0o644)


def _made(folder: Path, toolchain: Toolchain) -> bool:
    """Make the headers, or leave a log that says why they cannot be made."""
    if failed_lately(folder / "failed.log"):
        return False
    try:
        _make(folder, toolchain)
        return True
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        text = str(getattr(error, "stderr", "") or error)
        with contextlib.suppress(OSError):
            write(folder / "failed.log", text[-4000:])
        return False


def failed_lately(log: Path) -> bool:
    """Whether something could not be made within the last hour: a full disk passes, a compiler's answer stays."""
    # Not from the future: the clock was put back since, and would have to catch up first.
    return log.exists() and 0 <= time.time() - log.stat().st_mtime < RETRY_S


def existing(root: Path, toolchain: Toolchain) -> Path | None:
    """The folder where ``slim_tree`` has made it; makes nothing."""
    folder = _place(root, toolchain)
    return folder if (folder / INDEX).exists() else None


def _place(root: Path, toolchain: Toolchain) -> Path:
    installed = torch_folder()
    # A torch that is replaced in place may keep its version.
    stamp = (installed / "version.py").stat().st_mtime_ns if installed is not None else None
    identity = json.dumps([VERSION, *toolchain.identity(), str(installed), stamp, sysconfig.get_path("include")])
    return root.absolute() / "pch" / f"slim-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"


def _make(folder: Path, toolchain: Toolchain) -> None:
    installed = torch_folder()
    if installed is None:
        raise ValueError("torch is not installed")
    include = installed / "include"
    shutil.rmtree(folder)
    write_headers(include, folder)
    compiler = Compiler(toolchain)
    _keep(folder, include, compiler)
    index = make_index(compiler, folder, include, [f"-I{folder}", DEFINE])
    _readable_by_workers(folder)
    temporary = folder / f"{INDEX}.tmp"
    temporary.write_text(json.dumps(index, separators=(",", ":")))
    temporary.chmod(0o644)
    temporary.rename(folder / INDEX)


def _keep(folder: Path, include: Path, compiler: Compiler) -> None:
    """Compile what slim headers leave out of line, into one archive."""
    made = []
    for name, text in kept_sources(include).items():
        source = folder / "kbv" / f"{name}.cpp"
        write(source, text)
        slim = [] if name == "make_variable" else [f"-I{folder}", DEFINE]
        compiler.run(["-O2", "-c", str(source), "-o", str(source.with_suffix(".o"))], slim)
        made.append(str(source.with_suffix(".o")))
    archiver = compiler.run(["-print-prog-name=ar"]).strip()
    subprocess.run([archiver, "rcs", str(folder / KEPT), *made], check=True, capture_output=True, text=True, timeout=60)


def _readable_by_workers(folder: Path) -> None:
    """Workers have uids of their own, and the umask may be strict."""
    for place, _, names in os.walk(folder):
        os.chmod(place, 0o755)
        for name in names:
            os.chmod(os.path.join(place, name), 0o644)
