"""The sandbox level that a worker reaches here, why no higher one, and whether a worker gets at what it is given."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from kbverified.check.place import CACHE_VARIABLE
from kbverified.doctor.finding import Finding, fail, nearest, ok, warn
from kbverified.sandbox import SandboxError, SpawnRequest, reclaim, spawn
from kbverified.sandbox.request import LEVEL_OF, Mechanism

MEANING = {
    "full": "a uid, a network and a file system of its own",
    "user": "no uid of its own: it has yours, behind namespaces or Landlock",
    "none": "nothing is kept from a candidate",
}


def levels() -> Iterator[Finding]:
    """Each mechanism is tried with a worker that does nothing, best first, until one works."""
    refused: list[str] = []
    for mechanism, level in LEVEL_OF.items():
        why = refusal(mechanism)
        if why is not None:
            refused.append(f"{level} ({mechanism}): {why}")
            continue
        value = f"level {level} by {mechanism}: {MEANING[level]}"
        if level == "full":
            yield ok("sandbox", value)
            return
        value = "; not ".join([value, *refused])
        if level == "user":
            yield warn("sandbox", value, "for level full run as root with CAP_SYS_ADMIN, as in a privileged container")
        else:
            todo = "mend one of these causes; until then run only kernels that you trust, or in a container made for it"
            yield fail("sandbox", value, todo)
        return
    yield fail("sandbox", "no worker starts: " + "; ".join(refused), "mend the first cause; without it nothing runs")


def refusal(mechanism: Mechanism) -> str | None:
    """Why a worker cannot be started by a mechanism; None where it can."""
    program = next(path for path in ("/bin/true", "/usr/bin/true") if os.path.exists(path))
    request = SpawnRequest([program], level=LEVEL_OF[mechanism], name="doctor", mechanism=mechanism)
    try:
        with spawn(request) as worker:
            status = worker.wait(timeout_s=30)
    except SandboxError as error:
        return str(error).partition(f"{mechanism}: ")[2].partition(". ")[0] or str(error)
    return None if status is not None and status.ok else f"its worker ended with {status}"


def reaches(folder: Path, level: Literal["auto", "full", "user", "none"] = "auto") -> Iterator[Finding]:
    """Whether a worker can write where its builds will lie: with another uid, it may not get past the folders above."""
    there = nearest(folder)
    try:
        probe = Path(tempfile.mkdtemp(prefix=".doctor-", dir=there))
    except OSError:
        return  # not writable at all, which another finding says
    probe.chmod(0o755)
    try:
        request = SpawnRequest(
            ["/bin/sh", "-c", ': > "$0"/written', str(probe)], level=level, writable=(probe,), name="doctor"
        )
        with spawn(request) as worker:
            status = worker.wait(timeout_s=30)
        written = (probe / "written").exists()
        if written:
            yield ok("worker's folder", f"a worker writes below {there}")
        else:
            said = f"a worker could not write below {there} ({status})"
            yield fail("worker's folder", said, f"name another folder in {CACHE_VARIABLE}")
    except SandboxError as error:
        todo = f"let others enter the folders above (chmod o+x), or name another folder in {CACHE_VARIABLE}"
        yield fail("worker's folder", f"{there}: {error}", todo)
    finally:
        reclaim(probe)
        shutil.rmtree(probe, ignore_errors=True)


def evaluator() -> Iterator[Finding]:
    """Whether commands of this environment can be forked from a warm process; without, they only take longer."""
    from kbverified.evaluator import client, key

    try:
        why = key.against(os.environ)
        folder = client.folder()
    except (client.Unusable, OSError) as error:
        yield warn("evaluator", str(error), "it works without, and imports torch anew in every stage")
        return
    if why is not None:
        yield warn("evaluator", why, "unset it: until then torch is imported anew in every stage")
    else:
        yield ok("evaluator", f"can be used, its sockets lie in {folder}")
