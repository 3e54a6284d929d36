"""The command with defences switched off, to show that an attack escapes without them.

    python without.py verify,bound stage time-fp32 ...

That is a process of its own, which imports torch, and so do its workers. Many such commands are served sooner by one
warm process, an evaluator (docs/evaluator.md) whose judges do as they are told here:

    python without.py --serve < LISTENING_SOCKET
    KBV_WITHOUT_SOCKET=PATH python without.py verify,bound stage time-fp32 ...
"""

from __future__ import annotations

import dataclasses
import os
import socket
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from switches import WORKERS, switch_off_in_judge

HERE = Path(__file__).resolve().parent
IN_WORKER = "--in-worker"
SERVE = "--serve"
SOCKET_VARIABLE = "KBV_WITHOUT_SOCKET"


def run(words: list[str]) -> int:
    """Be the judge of a command whose first word names the defences that it is to be without."""
    from kbverified import cli

    names = words[0].split(",")
    switch_off_in_judge(names)
    if in_worker := [name for name in names if name in WORKERS]:
        _start_workers_here(in_worker, Path(words[words.index("--problem") + 1]).resolve())
    return _command.get("main", cli.main)(words[1:])


_command: dict[str, Any] = {}
"""The command itself, where ``run`` stands in its place."""


def _start_workers_here(names: list[str], problem: Path) -> None:
    from kbverified.judge import party

    spawn = party.spawn

    def spawn_changed(request: Any) -> Any:
        argv = [sys.executable, "-P", str(HERE / "without.py"), IN_WORKER, ",".join(names)]
        readable = (*request.readable, HERE, problem)
        env = {**request.env, "KBV_ATTACKED_PROBLEM": str(problem)}
        return spawn(dataclasses.replace(request, argv=argv, readable=readable, env=env))

    party.spawn = spawn_changed


def work(names: list[str]) -> int:
    """Be a worker without these."""
    from kbverified import worker

    for name in names:
        WORKERS[name]()
    print("a worker without", ",".join(names), flush=True)  # a forked worker is ended, and may not come to flush
    return worker.main()


def serve() -> int:
    """Be the evaluator; and in its children what they were forked for."""
    from kbverified.evaluator import preload, server
    from kbverified.sandbox import forked

    listener = server._listener()
    preload.preload(preload.LIBRARIES, preload.LIBRARIES_IF_THERE, preload.package_modules())
    role = server.Server(listener, idle_s=float(os.environ["KBV_EVALUATOR_IDLE_S"])).run()
    if role == "judge":
        from kbverified import cli
        from kbverified.evaluator import judge

        _command["main"], cli.main = cli.main, run  # type: ignore[assignment]
        return judge.main()
    return forked.run_launcher() if role == "launcher" else 0


def ask(words: list[str], path: str) -> int:
    """Have the warm process run a command. Raises OSError where nobody listens."""
    from kbverified.evaluator import client

    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        code = client._command(connection, words)
    assert code is not None, "the command was not taken"
    return code


def main() -> int:
    words = sys.argv[1:]
    if words[0] == IN_WORKER:
        return work(words[1].split(","))
    if words[0] == SERVE:
        return serve()
    if SOCKET_VARIABLE in os.environ:
        return ask(words, os.environ[SOCKET_VARIABLE])
    os.environ["KBV_EVALUATOR"] = "off"  # a judge forked from there would be whole
    return run(words)


if __name__ == "__main__":
    raise SystemExit(main())
