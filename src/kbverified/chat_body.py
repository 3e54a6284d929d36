"""The body of a chat completion, as servers really send it: JSON or a stream of events, whole, cut or something else.

Nothing in it is trusted: sizes, numbers and shapes are checked before anything is taken from it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

TOKENS_MAX = 10**9  # a count above this is no count
DIGITS_MAX = 100  # a longer number is kept as text: Python reads none of more than 4300
DEPTH_MAX = 64
"""So deep may lists and objects be nested: an answer's text lies at four. Deeper ones could not be stored as JSON."""
TOO_DEEP = f"[nested deeper than {DEPTH_MAX}: not kept]"

Body = dict[str, Any]


class CutBody(ValueError):
    """The answer begins and does not end: it has been paid for, perhaps, and has to be asked for again."""

    def __init__(self, words: str, text_characters: int = 0):
        super().__init__(words)
        self.text_characters = text_characters
        """How much of the answer's text came."""


class ErrorBody(ValueError):
    """An error where an answer should be, under whatever status. ``code`` as in HTTP, None where it is not said."""

    def __init__(self, words: str, code: int | None):
        super().__init__(words)
        self.code = code


class DeepBody(ValueError):
    """Nested so deeply that it cannot be read."""


class ForeignBody(ValueError):
    """Something else: a web page, another protocol."""


@dataclass(frozen=True)
class Answer:
    """What a body says. Text is None where there is none."""

    content: str | None
    refusal: str | None
    reasoning: str | None
    finish_reason: str | None
    served_model: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    has_choice: bool
    """False: the body is a completion without any choice."""
    raw: Body


def parse(text: str) -> Body:
    """The body of a chat completion; of a stream, its pieces joined.

    Raises CutBody, ErrorBody, DeepBody, ForeignBody.
    """
    text = text.removeprefix("\ufeff")
    if text.lstrip().startswith(("data:", "event:", "id:", ":")):
        body = _joined(text)
    else:
        body = _object(text)
    if (error := body.get("error")) is not None and not body.get("choices"):
        raise _error(error)
    if not isinstance(body.get("choices"), list):
        raise ForeignBody(f"no chat completion: {text[:200]!r}")
    return body


def answer_of(body: Body) -> Answer:
    """What the first choice of a body says."""
    choices = [choice for choice in body["choices"] if isinstance(choice, dict)]
    choice = choices[0] if choices else {}
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    usage = body.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return Answer(
        content=_text(message.get("content")),
        refusal=_text(message.get("refusal")),
        reasoning=_text(message.get("reasoning_content")) or _text(message.get("reasoning")),
        finish_reason=_text(choice.get("finish_reason")),
        served_model=_text(body.get("model")),
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        has_choice=bool(choices),
        raw=body,
    )


def _text(value: Any) -> str | None:
    """A text, also where it comes as a list of parts."""
    if isinstance(value, list):
        parts = [part["text"] for part in value if isinstance(part, dict) and isinstance(part.get("text"), str)]
        return "".join(parts) if parts else None
    return value if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or value != int(value):
        return None
    return int(value) if 0 <= value <= TOKENS_MAX else None


def _error(error: Any) -> ErrorBody:
    fields = error if isinstance(error, dict) else {"message": error}
    code = fields.get("code", fields.get("status"))
    if isinstance(code, str) and re.fullmatch("[0-9]{3}", code):
        code = int(code)
    code = code if isinstance(code, int) and 400 <= code <= 599 else None
    return ErrorBody(str(fields.get("message") or error)[:2000], code)


def _object(text: str) -> Body:
    try:
        value = _loads(text)
    except (json.JSONDecodeError, DeepBody) as error:
        begins = text.lstrip()[:1]
        if begins == "{":
            if isinstance(error, DeepBody):
                raise
            raise CutBody(f"the body is no whole JSON: {error}", len(text)) from None
        if not begins:
            raise CutBody("the body is empty") from None
        raise ForeignBody(f"no chat completion: {text[:200]!r}") from None
    if not isinstance(value, dict):
        raise ForeignBody(f"no chat completion: {text[:200]!r}")
    return value


def _loads(text: str) -> Any:
    """JSON with finite numbers only: what is not finite, or not JSON at all, stays as its text. Raises JSONDecodeError,
    DeepBody."""
    try:
        value = json.loads(text, parse_constant=str, parse_float=_finite, parse_int=_whole)
    except RecursionError:
        raise DeepBody("nested too deeply to be read") from None
    return _shallow(value, DEPTH_MAX) if text.count("[") + text.count("{") > DEPTH_MAX else value


def _shallow(value: Any, depth: int) -> Any:
    """A value without what is nested deeper than ``depth``."""
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        return TOO_DEEP
    if isinstance(value, list):
        return [_shallow(inner, depth - 1) for inner in value]
    return {name: _shallow(inner, depth - 1) for name, inner in value.items()}


def _whole(text: str) -> int | str:
    return int(text) if len(text) <= DIGITS_MAX else text


def _finite(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else text


# --- streams ------------------------------------------------------------------------------------------------


def _is_end(line: str) -> bool:
    return line.startswith("data:") and line.removeprefix("data:").strip() == "[DONE]"


def _events(text: str) -> Iterator[str]:
    """The data of each whole event (WHATWG HTML, 9.2.6): an event ends with an empty line; the last may lack it."""
    lines: list[str] = []
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        ends = _is_end(line)  # some servers send no empty line before it; within JSON no line can be this
        if lines and (ends or not line):
            yield "\n".join(lines)
            lines = []
        if ends:
            yield "[DONE]"
            return
        if line.startswith("data:"):
            lines.append(line.removeprefix("data:").removeprefix(" "))
    if lines:
        yield "\n".join(lines)


class _Choice:
    """One choice of a stream, piece by piece. Texts are joined at the end: there may be a hundred thousand pieces."""

    def __init__(self) -> None:
        self.fields: Body = {}
        self.message: Body = {}
        self.texts: dict[str, list[str]] = {}

    def add(self, piece: Body) -> None:
        for name, value in piece.items():
            if name in ("delta", "message"):
                self._add_message(value)
            elif value is not None or name not in self.fields:
                self.fields[name] = value

    def _add_message(self, delta: Any) -> None:
        for name, value in delta.items() if isinstance(delta, dict) else ():
            if isinstance(value, str) and name != "role":
                self.texts.setdefault(name, []).append(value)
            elif isinstance(value, list) and isinstance(self.message.get(name), list):
                self.message[name].extend(value)
            elif value is not None or name not in self.message:
                self.message[name] = value

    @property
    def length(self) -> int:
        """Characters of text so far, reasoning included."""
        return sum(len(text) for texts in self.texts.values() for text in texts)

    def whole(self) -> Body:
        return {**self.fields, "message": {**self.message, **{name: "".join(t) for name, t in self.texts.items()}}}


def _joined(text: str) -> Body:
    """One body of a stream's pieces. Raises CutBody where it has no end, ErrorBody."""
    body: Body = {}
    choices: dict[int, _Choice] = {}
    ended = False
    for data in _events(text):
        if data == "[DONE]":
            ended = True
            break
        piece = _piece(data, choices)
        for name, value in piece.items():
            if name == "choices":
                for part in value if isinstance(value, list) else ():
                    _add(choices, part)
            elif value is not None or name not in body:
                body[name] = value
    if not ended and not (choices and all(choice.fields.get("finish_reason") for choice in choices.values())):
        raise CutBody("the stream has no end", _length(choices))
    return {**body, "choices": [choices[index].whole() for index in sorted(choices)]}


def _piece(data: str, choices: dict[int, _Choice]) -> Body:
    try:
        piece = _loads(data)
    except json.JSONDecodeError as error:
        raise CutBody(f"a piece of the stream is no whole JSON: {error}", _length(choices)) from None
    if not isinstance(piece, dict):
        return {}
    if piece.get("error") is not None:
        said = _error(piece["error"])
        if choices:  # it had begun: what came may have been billed
            raise CutBody(f"the stream ends with an error: {said}", _length(choices))
        raise said
    return piece


def _add(choices: dict[int, _Choice], part: Any) -> None:
    if isinstance(part, dict):
        index = part.get("index")
        choices.setdefault(index if isinstance(index, int) else 0, _Choice()).add(part)


def _length(choices: dict[int, _Choice]) -> int:
    return sum(choice.length for choice in choices.values())
