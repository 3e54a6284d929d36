"""compile: build every extension the candidate asks for, without a GPU, in its private directory.

The candidate's code and its compilers run in a worker's sandbox: compiler flags are code too.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from kbverified import source_check
from kbverified.compilation import cache, precompiled, requests, slim_tree, toolchain
from kbverified.compilation import directory as directories
from kbverified.judge.party import CandidateFailure, InfrastructureFault, Settings, start_process
from kbverified.protocol import WEIGHT_SEED
from kbverified.records.problem import ProblemRecord
from kbverified.records.stages import Build
from kbverified.sandbox import reclaim

_ASKS_FOR_EXTENSION = ("cpp_extension", "load_inline")
_BUILDS_AT_FIRST_LAUNCH = ("triton", "torch.compile", "cutlass", "cute", "tilelang", "cupy", "numba")


def asks_for_extension(source: bytes) -> bool:
    """Whether a source asks for an extension: for one that does not, no worker is started."""
    return any(word.encode() in source for word in _ASKS_FOR_EXTENSION)


def run(candidate: Path, sha256: str, audit: ProblemRecord, settings: Settings) -> dict[str, Any]:
    """Classify the source and build; returns the fields of the record.

    Raises MissingCompiler where there is none, InfrastructureFault where no worker starts.
    """
    source = candidate.read_bytes()
    found = source_check.classify(source)
    if found is not None:
        return {"verdict": found.verdict, "detail": found.detail}
    text = source.decode("utf-8")
    tools = toolchain.find(settings.arch)
    build = directories.build_directory(settings.build_root, sha256, tools)
    fields: dict[str, Any] = {"verdict": "pass", "build_directory": str(build)}
    later = [word for word in _BUILDS_AT_FIRST_LAUNCH if word in text]
    if later:
        fields["deferred"] = f"{later[0]} builds at the first launch, in the gate"
    if not asks_for_extension(source):
        return fields
    tools.require_compiler()
    limit_bytes = cache.limit_bytes()
    with slim_tree.in_use(settings.build_root, tools) as headers:
        if headers is not None:
            precompiled.precompile(headers, tools, precompiled.guess_flags(text))
        with cache.in_use(build), directories.locked(build):
            fields.update(_build(candidate, audit, settings, build, headers))
    try:
        cache.sweep(settings.build_root, limit_bytes)
    except OSError as error:  # what was built stands; another job sweeps
        print(f"the build cache was not swept: {error}", file=sys.stderr)
    return fields


def _build(
    candidate: Path, audit: ProblemRecord, settings: Settings, build: Path, headers: Path | None
) -> dict[str, Any]:
    party = start_process(candidate, "ModelNew", settings, "compile", build, writable=True, sees_device=False)
    message = {
        "do": "start",
        "dry_run": True,
        "call": not requests.only_at_import(candidate.read_text("utf-8")),
        "device": settings.device,
        "arch": settings.arch,
        "source": str(candidate.absolute()),
        "class": "ModelNew",
        "init_inputs": audit.init_inputs,
        "inputs": [[list(s.shape), s.dtype] if s is not None else None for s in audit.inputs],
        "weight_seed": WEIGHT_SEED,
        "build_directory": str(build),
        "build_writable": True,
        "header": str(headers) if headers else None,
        "threads": 1,
    }
    try:
        reply = party.ask(message, timeout_s=settings.build_timeout_s)
        outcome = _judge(reply)
    except CandidateFailure as failure:
        outcome = _judge_failure(failure, settings.device)
    finally:
        party.close()
        reclaim(build)
    if outcome.get("verdict") == "compile_error" and directories.disk_is_full(build):
        raise InfrastructureFault(f"a build failed and the disk of {build} is full: free some of it and run again")
    builds = _builds(party.builds)
    if not (message["call"] or builds or outcome):
        outcome = {"deferred": "the import asked for no extension; if one is asked for later, it builds in the gate"}
    ended = party.worker.poll()
    cpu_s = None if ended is None or ended.cpu_s is None else round(ended.cpu_s, 2)
    return {**outcome, "builds": builds, "cpu_seconds": cpu_s, "output_tail": party.worker.output_tail()}


def _judge(reply: dict[str, Any]) -> dict[str, Any]:
    met = reply.get("met")
    if reply.get("failed_build") is True:
        return {"verdict": "compile_error", "detail": str(met)[:4000]}
    if met is None:
        return {}
    return {
        "deferred": f"the dry run without data stopped ({str(met)[:200]}); what it did not reach builds in the gate"
    }


def _judge_failure(failure: CandidateFailure, device: str) -> dict[str, Any]:
    """Only a failing compiler is a verdict here: everything else may be the missing GPU's fault, or the dry run's."""
    if failure.verdict == "compile_error":
        return {"verdict": "compile_error", "detail": failure.detail}
    if failure.verdict == "output_flood":
        return {"verdict": "output_flood", "detail": failure.detail}
    return {
        "deferred": f"{failure.verdict} without a launch on the device; judged in the gate: {failure.detail[-300:]}"
    }


def _builds(claims: list[dict[str, Any]]) -> tuple[Build, ...]:
    """A worker's build reports, as far as they are well-formed."""
    found = []
    for claim in claims[:64]:
        try:
            found.append(
                Build(
                    name=str(claim.get("name", ""))[:200],
                    key=str(claim.get("key", ""))[:64],
                    seconds=claim.get("seconds"),
                    cached=bool(claim.get("cached", False)),
                    ok=bool(claim.get("ok", False)),
                    log_tail=str(claim.get("log", ""))[-6000:],
                )
            )
        except ValueError:
            continue
    return tuple(found)
