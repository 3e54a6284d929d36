"""An OpenAI-compatible endpoint on this machine, over real HTTP, that behaves and misbehaves as it is told."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

Body = dict[str, Any]
AnyServer = TypeVar("AnyServer", bound="EndpointServer")


@dataclass(frozen=True)
class Answer:
    """What is sent back. ``body``: a chat completion or another value as JSON, or the bytes themselves."""

    body: Body | bytes | str = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    wait_s: float = 0.0
    """Before the first byte."""
    cut_after: int | None = None
    """Close the connection after so many bytes of the body."""
    piece_wait_s: float = 0.0
    """Before each event of a stream."""
    linger_s: float = 0.0
    """After a stream's last event, before the connection's end."""


def completion(content: Any, finish_reason: str | None = "stop", usage: Any = (11, 22), **more: Any) -> Answer:
    """A chat completion. ``more``: fields of the message, or of the body where they are its own (model)."""
    answer = {
        name: more.pop(name) for name in ("wait_s", "cut_after", "piece_wait_s", "linger_s", "headers") if name in more
    }
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": more.pop("model", "some-model-2026-11-30"),
        "choices": [
            {"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant", "content": content, **more}}
        ],
    }
    if isinstance(usage, tuple):
        usage = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return Answer({**body, "usage": usage}, **answer)


def error(status: int, message: str, headers: dict[str, str] | None = None, code: Any = None) -> Answer:
    return Answer({"error": {"message": message, "type": "some_error", "code": code}}, status, headers or {})


def html(status: int = 200) -> Answer:
    return Answer("<html><body>A portal</body></html>", status, content_type="text/html")


def events(body: Body, piece_characters: int = 7) -> Iterator[bytes]:
    """A completion as its server streams it: role, text in pieces, the reason of its end, usage, DONE."""
    shell = {name: body[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choice = body["choices"][0]
    message = choice["message"]

    def event(choices: list[Body], **more: Any) -> bytes:
        return f"data: {json.dumps({**shell, 'choices': choices, **more})}\n\n".encode()

    def delta(values: Body, reason: str | None = None) -> bytes:
        return event([{"index": 0, "delta": values, "finish_reason": reason}])

    yield b": keep-alive\n\n"
    yield delta({"role": "assistant", "content": ""})
    for name in ("reasoning_content", "refusal", "content"):
        text = message.get(name)
        for start in range(0, len(text or ""), piece_characters):
            yield delta({name: text[start : start + piece_characters]})
    yield delta({}, choice["finish_reason"])
    if body.get("usage"):
        yield event([], usage=body["usage"])
    yield b"data: [DONE]\n\n"


class EndpointServer(http.server.ThreadingHTTPServer):
    """Answers in the order given, the last one ever after; keeps what it was asked."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *answers: Answer):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = list(answers)
        self.choose: Callable[[Body], Answer] | None = None
        """Where it is given, it decides instead."""
        self.requests: list[Body] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.at_once_max = 0
        self._at_once = 0
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    @contextmanager
    def serving(self, body: Body, headers: dict[str, str]) -> Iterator[Answer]:
        with self._lock:
            self.requests.append(body)
            self.headers.append(headers)
            self.times.append(time.monotonic())
            self._at_once += 1
            self.at_once_max = max(self.at_once_max, self._at_once)
            number = min(len(self.requests), len(self.answers)) - 1
        try:
            yield self.choose(body) if self.choose else self.answers[number]
        finally:
            with self._lock:
                self._at_once -= 1

    def handle_error(self, *_: object) -> None:
        """Clients leave in the middle: that is what is tested."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: EndpointServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body["path"] = self.path
        with self.server.serving(body, {name.lower(): v for name, v in self.headers.items()}) as answer:
            time.sleep(answer.wait_s)
            if body.get("stream") and isinstance(answer.body, dict) and answer.body.get("choices"):
                self._stream(answer, answer.body)
            else:
                self._whole(answer)

    def _whole(self, answer: Answer) -> None:
        body = answer.body
        data = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
        self._head(answer, answer.content_type, {"Content-Length": str(len(data))})
        self.wfile.write(data[: answer.cut_after])
        if answer.cut_after is not None:
            self.close_connection = True

    def _stream(self, answer: Answer, body: Body) -> None:
        """In chunks (RFC 9112, 7.1), so that a cut can be told from an end."""
        self._head(answer, "text/event-stream", {"Transfer-Encoding": "chunked"})
        sent = 0
        for event in events(body):
            time.sleep(answer.piece_wait_s)
            if answer.cut_after is not None and sent + len(event) > answer.cut_after:
                self.close_connection = True
                return
            self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
            self.wfile.flush()
            sent += len(event)
        time.sleep(answer.linger_s)
        self.wfile.write(b"0\r\n\r\n")

    def _head(self, answer: Answer, content_type: str, more: dict[str, str]) -> None:
        self.send_response(answer.status)
        for name, value in {"Content-Type": content_type, **more, **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def running(server: AnyServer) -> Iterator[AnyServer]:
    """A server while the context lasts."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def serve(*answers: Answer) -> AbstractContextManager[EndpointServer]:
    """One that gives these answers, while the context lasts."""
    return running(EndpointServer(*answers))
