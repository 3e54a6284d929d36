"""No key in any file or log: what is secret is blanked in everything that came from a server or describes a fault.

Servers repeat keys: in the error of a refused login, in headers, in an answer's text. Blanked are the key as it is,
percent-encoded, and in Base64.
"""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit, urlunsplit

KEY_MIN_CHARACTERS = 8
"""A shorter word may well be part of an honest answer (``ollama``, ``EMPTY``): blanking it would change code."""
BLANK = "[API key]"
_PUBLIC = ("api-version",)
"""Of a query what is no secret: its value is a date, which answers and models' names hold as well."""

T = TypeVar("T")


@dataclass(frozen=True)
class Secrets:
    """The words that may not be written."""

    words: tuple[str, ...] = ()

    @classmethod
    def of(cls, base_url: str, api_key: str | None) -> Secrets:
        """Of a connection: its key, what the address hides, and the headers that openai takes from the environment."""
        found = [api_key] if api_key else []
        parts = urlsplit(base_url)
        found += [unquote(word) for word in (parts.password, parts.query) if word]
        found += [value for name, value in parse_qsl(parts.query) if name not in _PUBLIC]
        if parts.username:  # some take a key as the user's name; as a Basic login carries both
            name = unquote(parts.username)
            found += [*([] if parts.password else [name]), f"{name}:{unquote(parts.password or '')}"]
        for line in os.environ.get("OPENAI_CUSTOM_HEADERS", "").splitlines():
            found.append(line.partition(":")[2].strip())
        words = {form for word in found if len(word) >= KEY_MIN_CHARACTERS for form in _forms(word)}
        return cls(tuple(sorted(words, key=lambda word: (-len(word), word))))

    def blank(self, text: str) -> str:
        for word in self.words:
            text = text.replace(word, BLANK)
        return text

    def blanked(self, value: T) -> T:
        """A JSON value with every text in it blanked, names included."""
        return self._blanked(value)

    def _blanked(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.blank(value)
        if isinstance(value, dict):
            return {self.blank(str(name)): self._blanked(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self._blanked(inner) for inner in value)
        return value

    def line(self, text: object, limit: int = 500) -> str:
        """Words for a log: one line, blanked before it is cut, so that no half of a key is left."""
        return self.blank(" ".join(str(text).split()))[:limit]


def _forms(word: str) -> set[str]:
    data = word.encode()
    encoded = {base64.b64encode(data), base64.urlsafe_b64encode(data)}
    forms = {word, quote(word), quote(word, safe=""), quote_plus(word)}
    return forms | {one.decode().rstrip("=") for one in encoded}


def url_without_secrets(url: str) -> str:
    """The address without user, password and query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
