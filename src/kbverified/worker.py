"""The bootstrap in the candidate's process: the only code that executes a candidate.

It answers the judge's messages one by one. Everything it says is a claim: the candidate shares this process and can
change any of it. So it holds no seed of any input, no reference output and no verdict; it gets buffers that belong
to the judge, and what it reports is checked there.

Messages (JSON objects, one reply each): construct, driver, open, start, rebuild (bootstrap.start); buffers, forward,
time, batch, settle, memory, flags (bootstrap.launches); exit. A failure of the candidate is a reply with ``failure``
(a verdict) and ``detail``.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from kbverified.bootstrap.launches import Launches
from kbverified.bootstrap.start import Start
from kbverified.bootstrap.state import Failed, writable
from kbverified.compilation import jit_caches
from kbverified.sandbox import Channel, ChannelClosed

# The judge kills its workers; a worker that is forgotten ends by itself.
_PATIENCE_S = 24 * 3600.0


class Bootstrap(Start, Launches):
    """One worker, which answers what it is asked."""

    def serve(self) -> None:
        """Answer until the judge says exit or goes away."""
        import torch
        import torch.utils.cpp_extension

        from kbverified import affinity, codec, distributions, layout, precision
        from kbverified.devices import prepare

        # Everything that a launch will need is imported now, before a device is held for it.
        del affinity, codec, distributions, layout, precision
        prepare(os.environ.pop("KBV_DEVICE"))
        torch.set_grad_enabled(False)
        self.channel.send({"ready": os.getpid()})
        while True:
            message, fds = self.channel.receive(_PATIENCE_S)
            self.channel.spin_s = 0.0
            if message.get("do") == "exit":
                return
            self.channel.send(self.answer(message, fds))

    def answer(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        handler = getattr(self, f"do_{message.get('do')}")
        try:
            return handler(message, fds)
        except Failed as failure:
            detail = writable(failure.detail[-4000:])
            return {"failure": failure.verdict, "detail": detail, "builds": self.builds}


def main() -> int:
    """Serve the channel that the sandbox handed over."""
    channel = Channel.from_environment()
    jit_caches.unseal()
    with contextlib.suppress(ChannelClosed):
        Bootstrap(channel).serve()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
