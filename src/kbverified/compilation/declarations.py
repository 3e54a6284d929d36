"""What preprocessed C++ declares at namespace scope, and which header declares it. Torch-free.

A scanner, not a parser. It errs on the side of naming too much: who asks which headers a source can notice then gets
one too many. Members of classes, parameters and bodies are left out: nothing reaches them but through a name that is
declared at namespace scope.
"""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

MACRO = "#"
"""The namespace of a macro, which has none."""

_TOKEN = re.compile(
    r"""
      ^\#[^\n]*                                    # line marker or directive
    | R"([^()\\\s]{0,16})\(.*?\)\1"                # raw string
    | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'    # string, character
    | \d[\w.']*                                    # number
    | [A-Za-z_]\w*
    | ::|->|<<=|>>=|<=>|<=|>=|==|!=|&&|\|\||\+\+|--|[-+*/%&|^]=|\.\.\.
    | [^\s\w]
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
_MARKER = re.compile(r'# (\d+) "((?:[^"\\]|\\.)*)"((?: \d)*)')
_NO_NAMES = frozenset(
    "alignas alignof asm auto bool char class const consteval constexpr constinit decltype default delete double enum "
    "explicit extern final float friend inline int long mutable namespace noexcept operator override private protected "
    "public register requires return short signed sizeof static static_assert struct template thread_local typedef "
    "typename union unsigned using virtual void volatile wchar_t __attribute__ __attribute __extension__ __restrict "
    "__inline __asm__ __declspec if else for while do switch case true false nullptr this new throw try catch".split()
)
_KINDS = frozenset(("class", "struct", "union", "enum"))


@dataclass
class Declarations:
    """What one translation unit's headers declare."""

    names: dict[str, set[tuple[str, str, int]]] = field(default_factory=dict)
    """Name to {(header, namespace, hash of the declaration)}: functions, classes, variables, macros and so on."""
    usings: dict[str, set[tuple[str, str, str]]] = field(default_factory=dict)
    """Name to {(header, namespace, text)} of using-declarations (``using std::optional``)."""
    class_namespaces: set[str] = field(default_factory=set)
    """Namespaces that hold a class or enumeration: those that argument-dependent lookup can look into."""
    forward: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    """The same for classes that are only announced, and for namespaces."""
    specialised: dict[str, set[str]] = field(default_factory=dict)
    """Class template to the headers that specialise it."""
    parents: dict[str, str] = field(default_factory=dict)
    """Header to the file that included it first; also: every file that was read."""
    aliases: dict[str, set[str]] = field(default_factory=dict)
    """Namespace alias to the last components of what it stands for."""
    directives: set[tuple[str, str]] = field(default_factory=set)
    """{(namespace, last component of the one that it opens)} of using-directives at namespace scope."""

    def add(self, name: str, header: str, namespace: str, text: int) -> None:
        self.names.setdefault(name, set()).add((header, namespace, text))


@dataclass
class _Scope:
    kind: str  # namespace, enum, other
    namespace: str


def scan(text: str) -> Declarations:
    """Declarations of preprocessed text (``g++ -E -dD``), with its line markers."""
    found = Declarations()
    scopes = [_Scope("namespace", "")]
    statement: list[str] = []
    header, parens, stack = "", 0, [""]
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token[0] == "#":
            header = _directive(token, header, stack, found)
            continue
        scope = scopes[-1]
        if scope.kind == "other":
            if token == "{":
                scopes.append(_Scope("other", scope.namespace))
            elif token == "}":
                scopes.pop()
            continue
        if token == "(":
            parens += 1
        elif token == ")":
            parens = max(parens - 1, 0)
        if parens and token in "{}":  # a lambda or an initialiser among arguments
            continue
        if token == "}":
            if len(scopes) > 1:
                if scope.kind == "enum":
                    _declare(statement, header, scope, found, enumerators=True)
                scopes.pop()
            statement = []
        elif token == "{":
            scopes.append(_opened(statement, header, scope, found))
            # ``struct X {...} y;`` and ``int x{3};`` go on after the brace; a function or a namespace does not.
            statement = []
        elif scope.kind == "enum":
            statement.append(token)
        elif token == ";" and not parens:
            _declare(statement, header, scope, found)
            statement = []
        else:
            statement.append(token)
    return found


def _directive(token: str, header: str, stack: list[str], found: Declarations) -> str:
    """Follow a line marker, or take a macro's name. Returns the header that the next line belongs to."""
    marker = _MARKER.match(token)
    if marker is None:
        if token.startswith("#define "):
            name = re.match(r"#define (\w+)", token)
            if name and not header.startswith("<"):
                found.add(name.group(1), header, MACRO, zlib.crc32(token.encode()))
        return header
    entered, flags = marker.group(2), marker.group(3)
    if "1" in flags.split():
        found.parents.setdefault(entered, stack[-1])
        stack.append(entered)
    elif "2" in flags.split() and len(stack) > 1:
        stack.pop()
        stack[-1] = entered
    else:
        found.parents.setdefault(entered, "")
        stack[-1] = entered
    return entered


def _opened(statement: list[str], header: str, scope: _Scope, found: Declarations) -> _Scope:
    """The scope that a brace opens after these tokens."""
    if scope.kind == "enum":
        return _Scope("other", scope.namespace)
    words = _plain(statement)
    if "namespace" in words[:2]:
        path = [w for w in words[words.index("namespace") + 1 :] if w[0].isalpha() or w[0] == "_"]
        names = [w for w in path if w not in ("inline", "__attribute__")]
        inside = scope.namespace if words[0] == "inline" else "::".join(filter(None, [scope.namespace, *names]))
        for name in names:
            found.forward.setdefault(name, set()).add((header, scope.namespace))
        return _Scope("namespace", inside)
    if words[:1] == ["extern"] and len(words) == 2 and words[1].startswith('"'):
        return _Scope("namespace", scope.namespace)
    _declare(statement, header, scope, found, opened=True)
    if "enum" in words and not {"class", "struct"} & set(words[words.index("enum") : words.index("enum") + 2]):
        return _Scope("enum", scope.namespace)
    return _Scope("other", scope.namespace)


def _plain(statement: list[str]) -> list[str]:
    """The tokens outside parentheses and angle brackets, without ``template <...>``."""
    out: list[str] = []
    parens = angles = 0
    previous = ""
    for token in statement:
        if token == "(" or token == "[":
            if not parens and not angles:
                out.append(token)
            parens += 1
        elif token == ")" or token == "]":
            parens = max(parens - 1, 0)
        elif not parens and token == "<" and previous != "operator" and (angles or _may_open(previous)):
            if not angles:
                out.append("<")
            angles += 1
        elif not parens and angles and token == ">":
            angles -= 1
        elif not parens and not angles:
            out.append(token)
        if not parens:
            previous = token
    return out


def _may_open(previous: str) -> bool:
    return bool(previous) and (previous[0].isalpha() or previous[0] == "_")


def _declare(
    statement: list[str],
    header: str,
    scope: _Scope,
    found: Declarations,
    opened: bool = False,
    enumerators: bool = False,
) -> None:
    """Take the names that one statement declares in the scope where it stands."""
    text = zlib.crc32(" ".join(statement).encode())
    if enumerators:
        for name in _before("=,", [*_plain(statement), ","]):
            found.add(name, header, scope.namespace, text)
        return
    words = _plain(statement)
    if not words:
        return
    if words[0] == "using" and "=" not in words:
        if words[1:2] == ["namespace"]:
            found.directives.add((scope.namespace, words[-1]))
        else:
            entry = (header, scope.namespace, " ".join(statement).replace(" :: ", "::"))
            found.usings.setdefault(words[-1], set()).add(entry)
        return
    if words[0] == "namespace" and "=" in words:
        found.aliases.setdefault(words[1], set()).add(words[-1])
    if "operator" in words:
        at = words.index("operator")
        if words[at - 1 : at] != ["::"]:
            symbol = "operator" + "".join(words[at + 1 : at + 3]).split("(")[0]
            found.add(symbol, header, scope.namespace, text)
        return
    names = list(_before("=({;[:", [*words, "{" if opened else ";"]))
    kind = next((i for i, word in enumerate(words[:6]) if word in _KINDS), None)
    if kind is not None and "(" not in words[:kind]:
        names = _class_names(words[kind + 1 :], names, header, scope, found, opened)
    for name in names:
        found.add(name, header, scope.namespace, text)


def _class_names(
    rest: list[str], names: list[str], header: str, scope: _Scope, found: Declarations, opened: bool
) -> list[str]:
    """Names declared by a statement that begins as a class does; specialisations and announcements go elsewhere."""
    head = rest[: rest.index(":")] if ":" in rest else rest
    if "<" in head:
        name = next((word for word in reversed(head[: head.index("<")]) if _is_name(word)), None)
        if name:
            found.specialised.setdefault(name, set()).add(header)
        return names if "(" in rest else []
    if opened or "(" in rest or "=" in rest:
        if opened:
            found.class_namespaces.add(scope.namespace)
        return [*names, *(word for word in head if _is_name(word))]
    for name in (word for word in rest if _is_name(word)):
        found.forward.setdefault(name, set()).add((header, scope.namespace))
    return []


def _before(marks: str, words: list[str]) -> Iterator[str]:
    """Unqualified identifiers that stand right before one of these marks, up to an initialiser."""
    for at, (one, two) in enumerate(itertools.pairwise(words)):
        # What is qualified is declared elsewhere: a member, or a function of another namespace.
        if two in marks and _is_name(one) and (not at or words[at - 1] != "::"):
            yield one
        if two == "=" and "," not in marks:
            return


def _is_name(word: str) -> bool:
    return (word[0].isalpha() or word[0] == "_") and word not in _NO_NAMES
