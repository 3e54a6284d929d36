"""What the judge tells the launcher, and what the launcher answers: one line of JSON each."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Plan:
    """Everything the launcher needs to start one worker. Paths are real paths."""

    mechanism: str
    argv: list[str]
    env: dict[str, str]
    channel_fd: int
    judge_pid: int
    read: list[str]
    write: list[str]
    devices: list[str]
    links: list[tuple[str, str]]
    """Other names of paths in ``read`` and ``write``: (name, real path)."""
    cores: list[int] | None
    pid_namespace: bool
    cpu_s: int | None
    file_size_bytes: int | None
    processes: int | None
    open_files: int | None
    core: int
    address_space_bytes: int | None
    temporary_bytes: int
    forked: bool
    """The launcher was forked from a warm process, and so is the worker: ``argv`` is run without an exec."""
    scratch: str | None
    """Stands for /tmp where the worker has no mounts of its own. The launcher removes it at the end."""

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Plan:
        return cls(**json.loads(line))


class Refused(Exception):
    """A step of the launcher failed.

    ``unavailable``: the machine does not offer what the mechanism needs, another may do. Otherwise the request
    itself is at fault, and a weaker level would not mend it.
    """

    def __init__(self, step: str, text: str, unavailable: bool) -> None:
        super().__init__(f"{step}: {text}")
        self.step = step
        self.text = text
        self.unavailable = unavailable
