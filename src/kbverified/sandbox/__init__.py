"""The room where untrusted code is started: limits, privileges, spawn and the channel to what runs inside.

Torch-free: the standard library and ctypes only. Names are imported when they are first used, because the
launcher and the worker's bootstrap import parts of this package on every start.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbverified.sandbox.channel import Channel as Channel
    from kbverified.sandbox.channel import ChannelClosed as ChannelClosed
    from kbverified.sandbox.channel import ChannelTimeout as ChannelTimeout
    from kbverified.sandbox.channel import ChannelViolation as ChannelViolation
    from kbverified.sandbox.ownership import reclaim as reclaim
    from kbverified.sandbox.request import ExitStatus as ExitStatus
    from kbverified.sandbox.request import Limits as Limits
    from kbverified.sandbox.request import SandboxError as SandboxError
    from kbverified.sandbox.request import SandboxUnavailable as SandboxUnavailable
    from kbverified.sandbox.request import SpawnRequest as SpawnRequest
    from kbverified.sandbox.start import reachable_level as reachable_level
    from kbverified.sandbox.start import spawn as spawn
    from kbverified.sandbox.view import PASSED_ON as PASSED_ON
    from kbverified.sandbox.view import import_path as import_path
    from kbverified.sandbox.view import nvidia_nodes as nvidia_nodes
    from kbverified.sandbox.worker import Worker as Worker

_HOME = {
    "Channel": "channel",
    "ChannelClosed": "channel",
    "ChannelTimeout": "channel",
    "ChannelViolation": "channel",
    "reclaim": "ownership",
    "ExitStatus": "request",
    "Limits": "request",
    "SandboxError": "request",
    "SandboxUnavailable": "request",
    "SpawnRequest": "request",
    "reachable_level": "start",
    "spawn": "start",
    "PASSED_ON": "view",
    "import_path": "view",
    "nvidia_nodes": "view",
    "Worker": "worker",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    """Import the module that defines a public name (PEP 562), and remember the name."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
