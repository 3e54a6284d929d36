"""Text of others' in our messages: what an endpoint or a candidate says may reach a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text without control characters: what a candidate said may be in it, and logs end in terminals."""
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)
