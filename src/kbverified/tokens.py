"""How many tokens a text is, where no server says so or what it says cannot be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

BYTES_PER_TOKEN = 3
"""Assumed, and meant to be too few: vocabularies differ and none of them is here, so that an estimate errs upwards."""
MESSAGE_TOKENS = 8
"""Assumed, for the role and the marks around each message."""
BYTES_PER_TOKEN_MAX = 16
"""A text of more bytes per reported token than this has not been counted, whatever the server says."""
_TOO_SHORT_TO_TELL_BYTES = 256


def text_tokens(size_bytes: int) -> int:
    """Estimate for a text of this size."""
    return -(-size_bytes // BYTES_PER_TOKEN)


def size_bytes(texts: Iterable[str | None]) -> int:
    return sum(len((text or "").encode("utf-8", "replace")) for text in texts)


def message_bytes(messages: Iterable[Mapping[str, Any]]) -> int:
    """Size of what messages say."""
    return size_bytes(value if isinstance(value, str) else str(value) for m in messages for value in m.values())


def message_tokens(messages: list[dict[str, str]]) -> int:
    """Estimate for a prompt."""
    return text_tokens(message_bytes(messages)) + MESSAGE_TOKENS * len(messages)


def counted(reported: int | None, estimate: int, size: int) -> tuple[int, str | None]:
    """Tokens to count for a text of ``size`` bytes, and why they are not those reported.

    Nothing reported, or fewer than the text can be: the estimate counts. More are believed: reasoning is not shown.
    """
    if reported is None:
        return estimate, "not reported"
    if size > _TOO_SHORT_TO_TELL_BYTES and reported * BYTES_PER_TOKEN_MAX < size:
        return max(estimate, reported), f"{reported} reported for {size} bytes"
    return reported, None
