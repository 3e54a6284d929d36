"""Messages between judge and worker: length-prefixed JSON over a Unix stream socket, and file descriptors.

Both sides use this class, but only the judge needs its caution: whatever a hostile peer sends ends in one of
three exceptions, within the deadline and within bounded memory.
"""

from __future__ import annotations

import array
import json
import math
import os
import select
import socket
import struct
import time
from collections.abc import Sequence

from kbverified.protocol import WORKER_MESSAGE_LIMIT_BYTES

FD_VARIABLE = "KBV_CHANNEL_FD"
"""Environment variable that tells a worker the number of its channel's file descriptor."""

MAX_FDS = 253  # the kernel's SCM_MAX_FD
MAX_DEPTH = 32
_HEADER = struct.Struct(">I")
_CMSG_CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0x40000000)


class ChannelClosed(Exception):
    """The peer has closed its end, or died."""


class ChannelTimeout(Exception):
    """The whole message was not there (or not taken) by the deadline."""


class ChannelViolation(Exception):
    """The peer sent something that is no message. The channel is of no use afterwards."""


class Channel:
    """One end of a connected Unix stream socket, which it owns.

    ``max_fds`` is how many file descriptors a received message may bring; what is beyond it is closed unseen.
    Not for use by two threads at once.
    """

    def __init__(self, sock: socket.socket, max_fds: int = MAX_FDS) -> None:
        self._sock = sock
        self._sock.setblocking(False)
        self._max_fds = max_fds
        self._buffer = bytearray()
        self._fds: list[int] = []
        self._broken: str | None = None
        self.spin_s = 0.0
        """So long ``receive`` looks for a message without sleeping, before it waits: whoever sleeps is woken late."""

    @classmethod
    def from_environment(cls) -> Channel:
        """The worker's end. Raises KeyError outside a worker."""
        return cls(socket.socket(fileno=int(os.environ[FD_VARIABLE])))

    def fileno(self) -> int:
        return self._sock.fileno()

    def has_something(self) -> bool:
        """Whether bytes wait to be read, or the peer has closed its end."""
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        self._drop_fds()
        self._sock.close()

    def send(self, message: dict, fds: Sequence[int] = (), timeout_s: float = 60.0) -> None:
        """Send a message, with copies of open file descriptors.

        Raises ValueError for a message that the peer would refuse, ChannelClosed, and ChannelTimeout where the
        peer does not take it in time (the channel is of no use then).
        """
        body = json.dumps(message, allow_nan=False, separators=(",", ":")).encode()
        if not isinstance(message, dict) or len(body) > WORKER_MESSAGE_LIMIT_BYTES:
            raise ValueError(f"message of {len(body)} bytes: a dict of at most {WORKER_MESSAGE_LIMIT_BYTES} is sent")
        if len(fds) > MAX_FDS:
            raise ValueError(f"{len(fds)} file descriptors: at most {MAX_FDS} go with a message")
        deadline = time.monotonic() + timeout_s
        rest = memoryview(_HEADER.pack(len(body)) + body)
        # Ancillary data travels with the first byte; it must not be sent twice.
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        while rest:
            try:
                sent = self._sock.sendmsg([rest], ancillary, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                self._wait(select.POLLOUT, deadline)
                continue
            except OSError as error:
                raise ChannelClosed(f"the peer has gone: {error.strerror}") from None
            rest, ancillary = rest[sent:], []

    def receive(self, timeout_s: float, max_fds: int | None = None) -> tuple[dict, list[int]]:
        """The next message and the file descriptors that came with it (close-on-exec; the caller closes them).

        The deadline is for the whole message. After a ChannelTimeout the next call goes on where this one
        stopped. Raises ChannelClosed, ChannelTimeout, ChannelViolation.
        """
        if self._broken:
            raise ChannelViolation(self._broken)
        allowed = self._max_fds if max_fds is None else max_fds
        deadline = time.monotonic() + timeout_s
        try:
            self._fill(_HEADER.size, deadline, allowed)
            (length,) = _HEADER.unpack_from(self._buffer)
            if length > WORKER_MESSAGE_LIMIT_BYTES:
                raise ChannelViolation(f"announced {length} bytes, the limit is {WORKER_MESSAGE_LIMIT_BYTES}")
            self._fill(_HEADER.size + length, deadline, allowed)
            message = parse(bytes(self._buffer[_HEADER.size :]))
        except ChannelViolation as violation:
            self._broken = str(violation)
            self._drop_fds()
            raise
        self._buffer.clear()
        fds, self._fds = self._fds, []
        return message, fds

    def _fill(self, size: int, deadline: float, max_fds: int) -> None:
        """Read until the buffer holds ``size`` bytes, never more."""
        while len(self._buffer) < size:
            # With no room for ancillary data the kernel itself closes what a peer sends along.
            space = socket.CMSG_SPACE(4 * max_fds) if max_fds else 0
            try:
                data, ancillary, _, _ = self._sock.recvmsg(size - len(self._buffer), space, _CMSG_CLOEXEC)
            except BlockingIOError:
                self._wait(select.POLLIN, deadline)
                continue
            except OSError as error:
                raise ChannelClosed(f"the peer has gone: {error.strerror}") from None
            self._keep_fds(ancillary, max_fds)
            if not data:
                cut = f" in the middle of a message ({len(self._buffer)} bytes of it)" if self._buffer else ""
                raise ChannelClosed(f"the peer has closed its end{cut}")
            self._buffer += data
            if len(self._buffer) < size and time.monotonic() > deadline:
                raise ChannelTimeout(f"{len(self._buffer)} of {size} bytes by the deadline")

    def _wait(self, event: int, deadline: float) -> None:
        remaining_s = deadline - time.monotonic()
        poll = select.poll()
        poll.register(self._sock, event)
        if event == select.POLLIN and self.spin_s:
            until = min(time.monotonic() + self.spin_s, deadline)
            while time.monotonic() < until:
                if poll.poll(0):
                    return
            remaining_s = deadline - time.monotonic()
        if remaining_s <= 0 or not poll.poll(math.ceil(remaining_s * 1000)):
            raise ChannelTimeout(f"nothing {'to read' if event == select.POLLIN else 'taken'} by the deadline")

    def _keep_fds(self, ancillary: list[tuple[int, int, bytes]], max_fds: int) -> None:
        for level, kind, data in ancillary:
            if level != socket.SOL_SOCKET or kind != socket.SCM_RIGHTS:
                continue
            received = array.array("i")
            received.frombytes(data[: len(data) - len(data) % received.itemsize])
            for fd in received:
                if len(self._fds) < max_fds:
                    self._fds.append(fd)
                else:
                    os.close(fd)

    def _drop_fds(self) -> None:
        while self._fds:
            os.close(self._fds.pop())

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def parse(body: bytes) -> dict:
    """One message from its bytes. Raises ChannelViolation for anything but a plain JSON object."""
    try:
        message = json.loads(body.decode("utf-8"), parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ChannelViolation("nested too deeply") from None
    except ValueError as error:  # not UTF-8, not JSON, NaN, an integer of a million digits
        raise ChannelViolation(f"no JSON: {str(error)[:120]}") from None
    if not isinstance(message, dict):
        raise ChannelViolation(f"a JSON {type(message).__name__}, not an object")
    _check_tree(message)
    return message


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is not finite")
    return value


def _check_tree(message: dict) -> None:
    """Bounded depth, and only text that can be written again: a lone surrogate would break the record's file."""
    level: list[object] = [message]
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for value in level:
            if isinstance(value, dict):
                below.extend(value.keys())
                below.extend(value.values())
            elif isinstance(value, list):
                below.extend(value)
            elif isinstance(value, str) and not value.isascii():
                try:
                    value.encode("utf-8")
                except UnicodeEncodeError:
                    raise ChannelViolation("text with a lone surrogate") from None
        if not below:
            return
        level = below
    raise ChannelViolation(f"nested deeper than {MAX_DEPTH}")
