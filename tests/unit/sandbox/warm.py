"""A small warm process for these tests: executed like the evaluator, it forks launchers for one judge.

Executed as ``python -P warm.py [MODULE to import first ...]``, with the line to the judge as descriptor 0.
"""

import os
import socket
import subprocess
import sys

from kbverified.evaluator.preload import preload
from kbverified.evaluator.server import Judge, Server
from kbverified.sandbox import forked, import_path


def start(*modules):
    """Start one for this process, whose forkable workers are forked by it from now on; returns it as a Popen."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        environment = {"PYTHONPATH": import_path(), "LANG": "C.UTF-8"}
        environment |= {"CUDA_VISIBLE_DEVICES": "", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"} if modules else {}
        command = [sys.executable, "-P", __file__, *modules]
        process = subprocess.Popen(command, stdin=theirs, env=environment, cwd="/", umask=0o022)
    forked.use(ours)
    return process


def main():
    line = socket.socket(fileno=os.dup(0))
    preload(sys.argv[1:])
    role = Server(listener=None, judges=[Judge(0, None, line)]).run()
    return forked.run_launcher() if role == "launcher" else 0


if __name__ == "__main__":
    sys.exit(main())
