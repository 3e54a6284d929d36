"""Text that somebody untrusted wrote, made so that it shows what it is: nothing hidden, nothing that reorders."""

from __future__ import annotations

import io
import tokenize
import unicodedata

# Controls, formats (zero width, bidi), surrogates, private use, unassigned; line and paragraph separators.
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
# Blank to the eye and of another category: Hangul fillers, Braille blank, grapheme joiner, Khmer vowels, Mongolian
# and other variation selectors.
_BLANK = {
    0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x2800, 0x3164, 0xFFA0,
    *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0),
}  # fmt: skip


def visible(text: str) -> str:
    """The text with every hidden character written out, as ``<U+200B>``; newlines and tabs stay."""
    if text.isascii() and (text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable()):
        return text
    return "".join(f"<U+{ord(c):04X}>" if hidden(c) else c for c in text)


def hidden(character: str) -> bool:
    """Whether a reader would not see a character, or would see others in another order for it."""
    if character in "\n\t":
        return False
    return unicodedata.category(character) in _HIDDEN or ord(character) in _BLANK


def count_hidden(text: str) -> int:
    return 0 if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable() else sum(map(hidden, text))


def numbered(text: str) -> str:
    """The lines, each after its number and a bar: an explanation can name one, and none begins at the margin."""
    lines = text.removesuffix("\n").split("\n")
    width = len(str(len(lines)))
    return "\n".join(f"{number:{width}d}| {line}" for number, line in enumerate(lines, start=1))


def without_comments(source: str) -> str:
    """Python source whose comments are replaced by a note of their length; unchanged where it cannot be read."""
    lines = source.split("\n")
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                (row, column), said = token.start, token.string
                line = lines[row - 1]
                if line[column : column + len(said)] != said:  # it counts lines otherwise: nothing must be lost
                    return source
                rest = line[column + len(said) :]
                lines[row - 1] = f"{line[:column]}# [{len(said)} characters of comment left out]{rest}"
    except (tokenize.TokenError, SyntaxError, IndexError, RecursionError):
        return source
    return "\n".join(lines)
