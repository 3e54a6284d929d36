"""The channel between judge and worker: what goes over it, and what a hostile peer cannot do to it."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time

import pytest

from kbverified.protocol import WORKER_MESSAGE_LIMIT_BYTES
from kbverified.sandbox import Channel, ChannelClosed, ChannelTimeout, ChannelViolation


@pytest.fixture
def pair():
    left, right = socket.socketpair()
    with Channel(left) as channel, right:
        yield channel, right


def framed(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


def test_round_trip() -> None:
    left, right = socket.socketpair()
    with Channel(left) as here, Channel(right) as there:
        message = {"text": "häß", "numbers": [1, 2.5, None, True], "nested": {"a": []}}
        here.send(message)
        here.send({})
        assert there.receive(1) == (message, [])
        assert there.receive(1) == ({}, [])


def test_a_message_longer_than_the_socket_buffer() -> None:
    left, right = socket.socketpair()
    with Channel(left) as here, Channel(right) as there:
        message = {"long": "x" * (WORKER_MESSAGE_LIMIT_BYTES - 100)}
        sender = threading.Thread(target=here.send, args=(message,))
        sender.start()
        assert there.receive(10)[0] == message
        sender.join()


def test_descriptors_travel() -> None:
    left, right = socket.socketpair()
    with Channel(left) as here, Channel(right) as there:
        readable, writable = os.pipe()
        here.send({"what": "pipe"}, fds=[writable, writable])
        message, fds = there.receive(1)
        assert message == {"what": "pipe"} and len(fds) == 2
        assert not os.get_inheritable(fds[0])
        os.write(fds[0], b"through")
        assert os.read(readable, 10) == b"through"
        for fd in (*fds, readable, writable):
            os.close(fd)


@pytest.mark.parametrize("where", ["header", "body"])
@pytest.mark.parametrize("allowed", [0, 1])
def test_surprise_descriptors_are_closed(pair, where, allowed) -> None:
    channel, peer = pair
    open_before = len(os.listdir("/proc/self/fd"))
    readable, writable = os.pipe()
    data = framed(b'{"a": 1}')
    if where == "header":
        socket.send_fds(peer, [data], [writable] * 3)
    else:
        peer.sendall(data[:6])
        socket.send_fds(peer, [data[6:]], [writable] * 3)
    os.close(writable)
    message, fds = channel.receive(1, max_fds=allowed)
    assert message == {"a": 1} and len(fds) == allowed
    for fd in fds:
        os.close(fd)
    assert os.read(readable, 1) == b"", "a copy of the pipe's writing end is still open"
    os.close(readable)
    assert len(os.listdir("/proc/self/fd")) == open_before


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[1]",
        b"7",
        b"null",
        b'"text"',
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": 1} trailing',
        b'{"a": "\xff"}',
        b'{"a": "\\ud800"}',
        b'{"\\udfff": 1}',
        b"{'a': 1}",
        b'{"a": ' + b"9" * 10_000 + b"}",
        b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}",
        b'{"a": ' + b"[" * 400_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    ],
    ids=lambda body: f"{body[:24]!r}",
)
def test_what_is_no_message(pair, body) -> None:
    channel, peer = pair
    threading.Thread(target=peer.sendall, args=(framed(body),), daemon=True).start()
    with pytest.raises(ChannelViolation):
        channel.receive(10)
    with pytest.raises(ChannelViolation):  # nothing can follow: where would it begin?
        channel.receive(1)


def test_an_announced_excess_is_refused_before_it_is_read(pair) -> None:
    channel, peer = pair
    peer.sendall(struct.pack(">I", WORKER_MESSAGE_LIMIT_BYTES + 1))
    with pytest.raises(ChannelViolation, match=str(WORKER_MESSAGE_LIMIT_BYTES + 1)):
        channel.receive(1)


def test_the_longest_message_is_taken(pair) -> None:
    channel, peer = pair
    body = json.dumps({"a": "x" * (WORKER_MESSAGE_LIMIT_BYTES - 9)}).encode()
    assert len(body) == WORKER_MESSAGE_LIMIT_BYTES
    threading.Thread(target=peer.sendall, args=(framed(body),), daemon=True).start()
    assert len(channel.receive(10)[0]["a"]) == WORKER_MESSAGE_LIMIT_BYTES - 9


def test_end_of_file(pair) -> None:
    channel, peer = pair
    peer.close()
    with pytest.raises(ChannelClosed):
        channel.receive(1)
    with pytest.raises(ChannelClosed):
        channel.send({})


def test_end_of_file_within_a_message(pair) -> None:
    channel, peer = pair
    peer.sendall(framed(b'{"a": 1}')[:7])
    peer.close()
    with pytest.raises(ChannelClosed, match="middle of a message"):
        channel.receive(1)


def test_silence(pair) -> None:
    channel, _ = pair
    started = time.monotonic()
    with pytest.raises(ChannelTimeout):
        channel.receive(0.2)
    assert 0.2 <= time.monotonic() - started < 1


def test_a_drip_feeding_peer_cannot_stretch_the_deadline(pair) -> None:
    channel, peer = pair
    stop = threading.Event()

    def drip() -> None:
        for byte in framed(b'{"a": "' + b"x" * 1000 + b'"}'):
            if stop.wait(0.01):
                return
            peer.send(bytes([byte]))

    dripping = threading.Thread(target=drip)
    dripping.start()
    started = time.monotonic()
    with pytest.raises(ChannelTimeout):
        channel.receive(0.3)
    assert time.monotonic() - started < 0.6
    stop.set()
    dripping.join()


def test_a_late_message_is_not_lost(pair) -> None:
    channel, peer = pair
    data = framed(b'{"a": 1}')
    peer.sendall(data[:6])
    with pytest.raises(ChannelTimeout):
        channel.receive(0.05)
    peer.sendall(data[6:])
    assert channel.receive(1) == ({"a": 1}, [])


def test_a_peer_that_does_not_read_cannot_hold_the_sender(pair) -> None:
    channel, _ = pair
    with pytest.raises(ChannelTimeout):
        for _ in range(100):
            channel.send({"a": "x" * 100_000}, timeout_s=0.1)


def test_only_what_the_peer_would_take_is_sent(pair) -> None:
    channel, _ = pair
    with pytest.raises(ValueError):
        channel.send({"a": float("nan")})
    with pytest.raises(ValueError):
        channel.send({"a": "x" * WORKER_MESSAGE_LIMIT_BYTES})
    with pytest.raises(ValueError):
        channel.send([])  # type: ignore[arg-type]


def test_it_is_known_whether_something_waits(pair) -> None:
    channel, peer = pair
    assert not channel.has_something()
    peer.sendall(framed(b'{"answer": 1}'))
    assert channel.has_something()
    assert channel.receive(1.0) == ({"answer": 1}, [])
    assert not channel.has_something()
    peer.close()
    assert channel.has_something()  # the end of what there will be
