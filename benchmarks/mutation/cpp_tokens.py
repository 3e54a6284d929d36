"""C++ and CUDA source as tokens with their places, and the few questions that operators ask of them. Torch-free.

Comments, strings and preprocessor lines are no tokens of interest, so that no operator ever changes one; nor does any
change what stands in a check of arguments (``TORCH_CHECK(...)``): whether a kernel refuses what it never gets is not
what the gate judges.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

_TOKEN = re.compile(
    r"""
      (?P<skip>\s+ | //[^\n]* | /\*.*?\*/ | ^[ \t]*\#(?:[^\n\\]|\\.)*)
    | (?P<text>R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)" | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*')
    | (?P<number>\.?\d(?:[eEpP][-+]|[\w.'])*)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<sign><<<|>>>|::|->|<<=|>>=|<=|>=|==|!=|&&|\|\||\+\+|--|[-+*/%&|^]=|.)
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
CLOSER = {"(": ")", "[": "]", "{": "}"}
TYPES = frozenset(
    "void bool char short int long float double unsigned signed auto half size_t int8_t int16_t int32_t int64_t "
    "uint8_t uint16_t uint32_t uint64_t scalar_t float2 float4 __half __nv_bfloat16 __half2 const".split()
)
_CHECKS = frozenset(
    "TORCH_CHECK TORCH_INTERNAL_ASSERT AT_ASSERT AT_ASSERTM AT_CHECK assert static_assert CHECK_CUDA CHECK_CONTIGUOUS "
    "CHECK_INPUT C10_CUDA_CHECK CUDA_CHECK cudaFuncSetAttribute".split()
)
_TEMPLATES = frozenset(
    "static_cast reinterpret_cast const_cast data_ptr accessor packed_accessor32 numeric_limits".split()
)
_NOT_OPERANDS = frozenset("return else case throw new delete sizeof".split())


@dataclass(frozen=True)
class Token:
    kind: str
    """number, name, text or sign."""
    text: str
    start: int
    """First character's offset in the source."""
    end: int


class Cpp:
    """A source and its tokens. ``match[k]`` is the index of the bracket that belongs to the one at k."""

    def __init__(self, source: str):
        self.source = source
        self.tokens = list(_tokens(source))
        self.match = self._brackets()
        self.frozen = self._frozen()
        """Indices of tokens that no operator may touch."""

    def __getitem__(self, index: int) -> str:
        """Text of a token; empty beyond the ends."""
        return self.tokens[index].text if 0 <= index < len(self.tokens) else ""

    def __len__(self) -> int:
        return len(self.tokens)

    def span(self, first: int, last: int) -> str:
        """Source from one token to another, both included."""
        return self.source[self.tokens[first].start : self.tokens[last].end]

    def signs(self, *texts: str) -> Iterator[int]:
        """Indices of free tokens with one of these texts, in order."""
        return (k for k, t in enumerate(self.tokens) if t.text in texts and t.kind != "text" and k not in self.frozen)

    def is_operand(self, index: int) -> bool:
        """Whether an expression can end with this token: what follows it is then a binary operator."""
        if not 0 <= index < len(self.tokens):
            return False
        token = self.tokens[index]
        if token.kind == "name":
            return token.text not in TYPES and token.text not in _NOT_OPERANDS
        return token.kind == "number" or token.text in (")", "]")

    def is_binary(self, index: int) -> bool:
        """Whether the sign at index stands between two operands, and is no part of a declaration or a template."""
        before = index - 1
        if not self.is_operand(before) or self[index + 1] in ("", ")", "]", ",", ";", "=", "*", ">", "&", "const"):
            return False
        if self[index] in ("*", "&"):  # const T* name, T __restrict__
            if self[before - 1] in ("const", "typename") or self[index + 1].startswith("__restrict"):
                return False
            if (
                self.tokens[before].kind == "name"
                and self[before - 1] in ("", ";", "{", "}", "(", ",")
                and (
                    self.tokens[index + 1].kind == "name"
                    and self[index + 2] in ("=", ",", ")", ";")
                    and self[before - 1] != "("
                )
            ):
                return False
        return not (self[index] in ("<", ">") and (self[index + 1] in TYPES or index in self._angles))

    def right(self, index: int) -> int | None:
        """Last token of the operand that begins at index; None where it is none that we read."""
        while self[index] in ("-", "+", "!", "*", "&", "~"):
            index += 1
        if self[index] == "(":
            last = self.match.get(index)
            if last is None:
                return None
            words = [self[k] for k in range(index + 1, last)]
            if words and all(word in TYPES or word == "*" for word in words):  # a cast in C's way
                return self.right(last + 1)
        elif 0 <= index < len(self.tokens) and self.tokens[index].kind in ("name", "number"):
            last = index
        else:
            return None
        while True:
            follows = self[last + 1]
            if follows in ("(", "[") and self.tokens[last].kind != "number" and last + 1 in self.match:
                last = self.match[last + 1]
            elif follows in (".", "->", "::") and last + 2 < len(self.tokens) and self.tokens[last + 2].kind == "name":
                last += 2
            elif follows == "<" and last + 1 in self._angles:
                last = self._angles[last + 1]
            else:
                return last

    def left(self, index: int) -> int | None:
        """First token of the operand that ends at index, without a sign in front of it."""
        if not self.is_operand(index):
            return None
        first = index
        while self[first] in (")", "]"):
            opened = self.match.get(first)
            if opened is None:
                return None
            first = opened
            if self.is_operand(first - 1) and self[first - 1] not in ("if", "while", "for"):
                first -= 1
            elif self[first - 1] == ">" and first - 1 in self._angles_back:
                first = self._angles_back[first - 1] - 1
            else:
                break
        while self[first - 1] in (".", "->", "::"):
            before = self.left(first - 2)
            if before is None:
                return first if self[first - 1] == "::" else None
            first = before
        return first

    def term(self, index: int) -> int | None:
        """Last token of the product or quotient that begins at index."""
        last = self.right(index)
        while last is not None and self[last + 1] in ("*", "/", "%") and self.is_binary(last + 1):
            last = self.right(last + 2)
        return last

    def statement_end(self, index: int) -> int | None:
        """The semicolon that ends the statement that index is in; None where a bracket closes first."""
        while index < len(self.tokens):
            if self[index] == ";":
                return index
            if self[index] in CLOSER:
                index = self.match.get(index, len(self.tokens))
            elif self[index] in CLOSER.values():
                return None
            index += 1
        return None

    def inside(self, index: int, opener: str) -> bool:
        """Whether a bracket of this kind is around the token, with no statement in between."""
        return any(self[k] == opener and k < index < close for k, close in self.match.items() if self[k] == opener)

    def loops(self) -> Iterator[tuple[int, int, int, int]]:
        """For each ``for (a; b; c)``: indices of the opening bracket, both semicolons, the closing bracket."""
        for k in self.signs("for"):
            close = self.match.get(k + 1)
            if close is None:
                continue
            ends = [j for j in range(k + 2, close) if self[j] == ";" and self._depth(k + 1, j) == 1]
            if len(ends) == 2:
                yield k + 1, ends[0], ends[1], close

    def _depth(self, first: int, index: int) -> int:
        return sum((self[j] in CLOSER) - (self[j] in CLOSER.values()) for j in range(first, index))

    def _brackets(self) -> dict[int, int]:
        match, stack = {}, []
        for k, token in enumerate(self.tokens):
            if token.kind == "sign" and token.text in CLOSER:
                stack.append(k)
            elif token.kind == "sign" and token.text in CLOSER.values():
                if stack and CLOSER[self[stack[-1]]] == token.text:
                    opened = stack.pop()
                    match[opened], match[k] = k, opened
        return match

    @cached_property
    def _angles(self) -> dict[int, int]:
        """Template brackets that a cast or an accessor opens: first to last."""
        found = {}
        for k, token in enumerate(self.tokens):
            if token.text == "<" and (self[k - 1] in _TEMPLATES or self[k + 1] in TYPES):
                depth = 0
                for j in range(k, min(k + 16, len(self.tokens))):
                    depth += (self[j] == "<") - (self[j] == ">")
                    if self[j] in (";", "{") or depth == 0:
                        break
                if depth == 0:
                    found[k] = j
        return found

    @cached_property
    def _angles_back(self) -> dict[int, int]:
        return {last: first for first, last in self._angles.items()}

    def _frozen(self) -> set[int]:
        """What stands in checks of arguments, in template heads and in function heads' parameters."""
        found: set[int] = set()
        for k in range(len(self.tokens)):
            if (self[k] in _CHECKS or self[k].startswith("CHECK_")) and k + 1 in self.match:
                found.update(range(k, self.match[k + 1] + 1))
            elif self[k] == "template" and self[k + 1] == "<":
                j = k
                while j < len(self.tokens) and self[j] != ">":
                    j += 1
                found.update(range(k, j + 1))
            elif self[k] == "(" and self[k - 1] not in ("for", "if", "while", "switch", "]"):
                close = self.match.get(k)  # name ( ... ) { : a head; name ( ... ) ; with types in it: an announcement
                if close is not None and self[close + 1] == "{" and self.tokens[k - 1].kind == "name":
                    found.update(range(k, close + 1))
        return found


def _tokens(source: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(source):
        kind = match.lastgroup
        if kind == "tag":  # of a raw string: lastgroup is the outermost that closed last, but be sure
            kind = "text"
        if kind is not None and kind != "skip":
            yield Token(kind, match.group(), match.start(), match.end())
