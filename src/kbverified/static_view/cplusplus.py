"""C++ and CUDA text, read roughly: its functions, which kernels they launch, which libraries and operators they call.

No preprocessor and no types. Enough for the text of an extension, which is short and flat.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kbverified.static_view.operators import canonical, is_tensor_method, is_torch_operator

_LITERALS_AND_COMMENTS = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(?P<d>[^()\s\\]{0,16})\((?P<raw>.*?)\)(?P=d)"|"(?:\\.|[^"\\\n])*\"""", re.DOTALL
)
_FUNCTION = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_KEYWORDS = frozenset("if for while switch catch return sizeof defined __launch_bounds__ else do alignas".split())
_OPERATOR = re.compile(r"\b(?:at|torch)::(?:native::|_ops::|nn::functional::)?([a-z_]\w*)\s*\(")
_METHOD = re.compile(r"(?:\.|->)\s*([a-z_]\w*)\s*\(")
_LIBRARY = re.compile(
    r"\b(cublas|cudnn|cufft|cusparse|cusolver|curand|cutensor|nvrtc)(?:Lt)?[A-Z]\w*\s*\(|\b(cutlass|cute|thrust)::"
    r"|\bcub::(Device)\w+|\b(mkl|cblas|dnnl|onednn)_\w+\s*\(|\bdnnl::"
)
_NO_WORK = re.compile(r"\b(?:cublas|cudnn|cusparse|cusolver|cufft)(?:Lt)?(?:Create|Destroy|Set|Get)\w*\s*\(")
_LIBRARY_OPERATORS = (
    ("matmul", re.compile(r"\bcublas\w*(?:[Gg]em[mv]|Matmul)\w*\s*\(|\bcblas_\wgem[mv]\s*\(")),
    ("conv", re.compile(r"\bcudnnConvolution\w*Forward\w*\s*\(")),
)
_LOOP = re.compile(
    r"\b(?:for|while)\s*\(|\b(?:at::)?parallel_for\s*\(|\bstd::(?:transform|accumulate|for_each|reduce)\b"
)
_RAW_MEMORY = re.compile(
    r"data_ptr\b|\baccessor\s*<|\bpacked_accessor|\bdata\s*<|\*\s*__restrict__|\b(?:float|double|\w+_t)\s*\*"
)
_BINDING = re.compile(r"\bm\s*\.\s*(?:def|impl)\s*\(")
_BODY_START = re.compile(r"\s*(?:const\b\s*)?(?:noexcept\b\s*)?(?:->[^;{}()]*)?\{")
LOOKS_LIKE_CPP = re.compile(r"__global__|#include\s*[<\"]|PYBIND11_MODULE|TORCH_LIBRARY|torch::Tensor|at::Tensor")


@dataclass
class Body:
    """A function of C++ text."""

    is_kernel: bool
    line: int
    identifiers: frozenset[str]
    operators: frozenset[str]
    """Torch operators it calls, under their canonical names."""
    libraries: frozenset[str]
    has_own_loop: bool
    """Loops over raw memory on the host: a kernel for the CPU."""


@dataclass
class CppSource:
    """All C++ text of one extension."""

    functions: dict[str, Body] = field(default_factory=dict)
    exports: dict[str, frozenset[str]] = field(default_factory=dict)
    """Names that Python sees, and the identifiers in what they are bound to."""

    @property
    def kernels(self) -> set[str]:
        return {name for name, body in self.functions.items() if body.is_kernel or body.has_own_loop}

    @property
    def has_cuda(self) -> bool:
        return any(body.is_kernel for body in self.functions.values())

    def closure(self, roots: set[str]) -> dict[str, Body]:
        """The functions that some names reach, kernels among them."""
        found: dict[str, Body] = {}
        waiting = list(roots)
        while waiting:
            name = waiting.pop()
            if name in self.functions and name not in found:
                found[name] = self.functions[name]
                waiting.extend(self.functions[name].identifiers & self.functions.keys())
        return found

    def reached(self, used: set[str], declared: set[str]) -> dict[str, Body]:
        """The functions behind the exported names among ``used``; ``declared`` are exported under their own names."""
        exported = {**{name: frozenset({name}) for name in declared}, **self.exports}
        chosen = [identifiers for name, identifiers in exported.items() if name in used]
        return self.closure({name for identifiers in chosen for name in identifiers})


def _without_comments(text: str) -> str:
    """The text with comments blanked and strings emptied, except that raw strings stay: they may be sources."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        if match["raw"] is not None:
            return '"" ' + match["raw"]
        keep = found if found.startswith('"') and len(found) < 80 else '""' if found.startswith('"') else " "
        return keep + "\n" * (found.count("\n") - keep.count("\n"))

    return _LITERALS_AND_COMMENTS.sub(blank, text)


def read(text: str) -> CppSource:
    """Read C++ text; never raises. Text that is no C++ gives nothing."""
    source = CppSource()
    text = re.sub(r"#[^\n]*", lambda m: m[0] if m[0].startswith("#define") else "", _without_comments(text))
    at = 0
    for match in _FUNCTION.finditer(text):
        if match.start() < at or match[1] in _KEYWORDS:
            continue
        closed = _closing(text, match.end() - 1, "()")
        opened = _body_start(text, closed)
        if opened is None:
            continue
        at = _closing(text, opened, "{}")
        head = text[max(text.rfind(c, 0, match.start()) for c in ";}{") + 1 : match.start()]
        name = match[1]
        whole = text[closed:at]
        if name in ("PYBIND11_MODULE", "TORCH_LIBRARY", "TORCH_LIBRARY_IMPL", "TORCH_LIBRARY_FRAGMENT"):
            _exports(whole, source)
            continue
        is_kernel = "__global__" in head
        old = source.functions.get(name)
        body = _body(whole, is_kernel, "__device__" in head, text.count("\n", 0, match.start()) + 1)
        if old is not None:  # overloads and templates share a name: what one of them does, the name does
            body = Body(
                old.is_kernel or body.is_kernel,
                old.line,
                old.identifiers | body.identifiers,
                old.operators | body.operators,
                old.libraries | body.libraries,
                old.has_own_loop or body.has_own_loop,
            )
        source.functions[name] = body
    return source


def _body(text: str, is_kernel: bool, on_device: bool, line: int) -> Body:
    if is_kernel or on_device:
        uses_cutlass = frozenset({"cutlass"}) if re.search(r"\bcutlass::", text) else frozenset()
        return Body(is_kernel, line, frozenset(_IDENTIFIER.findall(text)), frozenset(), uses_cutlass, False)
    operators = {canonical(name) for name in _OPERATOR.findall(text) if is_torch_operator(name)}
    operators |= {canonical(name) for name in _METHOD.findall(text) if is_tensor_method(name)}
    operators |= {name for name, pattern in _LIBRARY_OPERATORS if pattern.search(text)}
    worked = _NO_WORK.sub(" ", text)
    libraries = {next(g for g in (*m.groups(), "dnnl") if g) for m in _LIBRARY.finditer(worked)}
    libraries = {"cub" if name == "Device" else name for name in libraries}
    own_loop = bool(_LOOP.search(text) and _RAW_MEMORY.search(text)) and "<<<" not in text
    identifiers = frozenset(_IDENTIFIER.findall(text))
    return Body(False, line, identifiers, frozenset(operators), frozenset(libraries), own_loop)


def _exports(text: str, source: CppSource) -> None:
    for match in _BINDING.finditer(text):
        argument = text[match.end() : _closing(text, match.end() - 1, "()")]
        name = re.match(r'\s*"([^"]*)"', argument)
        if name:
            plain = re.split(r"[(:]", name[1].rpartition("::")[2])[0].strip()
            found = frozenset(_IDENTIFIER.findall(argument[name.end() :])) | {plain}
            source.exports[plain] = source.exports.get(plain, frozenset()) | found


def _closing(text: str, opened: int, pair: str) -> int:
    """The index after the bracket that closes the one at ``opened``; the text's end where none does."""
    depth = 0
    for match in re.compile(f"[{re.escape(pair)}]").finditer(text, opened):
        depth += 1 if match[0] == pair[0] else -1
        if depth == 0:
            return match.end()
    return len(text)


def _body_start(text: str, closed: int) -> int | None:
    """Where the body of a function begins whose parameters end at ``closed``; None for a call or a declaration."""
    match = _BODY_START.match(text, closed)
    return match.end() - 1 if match else None
