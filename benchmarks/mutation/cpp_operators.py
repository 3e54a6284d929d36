"""Mutation operators on C++ and CUDA source. Each says in its first line what it does to one place. Torch-free.

Not among them: double to float. An fp32 reference adds in float itself, so that this is no fault under its contract.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchmarks.mutation.cpp_tokens import TYPES, Cpp
from benchmarks.mutation.operators import Site, operator

_BOTH = (("rows", "columns"), ("height", "width"), ("H", "W"), ("M", "N"), ("in_channels", "out_channels"))
_PAIRS = {**dict(_BOTH), **{b: a for a, b in _BOTH}}
_EPSILON = re.compile(r"^(\w*eps\w*|\w*epsilon)$", re.IGNORECASE)
_SMALL = re.compile(r"^(?:\d*\.?\d*[eE]-(?:0?[4-9]|1\d)|0\.000\d+)[fF]?$")
_LOWEST = re.compile(r"^-?(INFINITY|FLT_MAX|CUDART_INF_F|HUGE_VALF?)$")


def _put(cpp: Cpp, first: int, last: int, new: str) -> Site:
    return Site(cpp.tokens[first].start, cpp.tokens[last].end, new)


# --- wrong index --------------------------------------------------------------------------------------------
def _subscripts(cpp: Cpp) -> Iterator[tuple[int, int]]:
    """Brackets that read or write an element: no declaration of an array, no capture of a lambda."""
    for k in cpp.signs("["):
        close = cpp.match.get(k)
        name = k - 1
        while cpp[name] == "]" and name in cpp.match:
            name = cpp.match[name] - 1
        declared = cpp[name - 1] in TYPES or cpp[name - 1] in (">", "*", "__restrict__")
        if close is not None and close > k + 1 and cpp.is_operand(k - 1) and not declared:
            yield k, close


@operator("index-plus-one", "wrong index", "c++")
def index_plus_one(source: str) -> Iterator[Site]:
    """a[i] becomes a[i + 1]."""
    cpp = Cpp(source)
    for k, close in _subscripts(cpp):
        inner = cpp.span(k + 1, close - 1)
        yield _put(cpp, k + 1, close - 1, f"({inner}) + 1" if close > k + 2 else f"{inner} + 1")


@operator("index-zero", "wrong index", "c++")
def index_zero(source: str) -> Iterator[Site]:
    """a[i] becomes a[0]."""
    cpp = Cpp(source)
    for k, close in _subscripts(cpp):
        if cpp.span(k + 1, close - 1) != "0":
            yield _put(cpp, k + 1, close - 1, "0")


def _in_addresses(cpp: Cpp, k: int) -> bool:
    """Whether a token is part of an index, or of what is added to a pointer."""
    if cpp.inside(k, "["):
        return True
    j = k
    while j > 0 and cpp[j] not in (";", "{", "}"):
        j -= 1
    return any(cpp[i] == "data_ptr" or (cpp[i] == "*" and cpp[i + 2] == "=") for i in range(j, k))


@operator("stride-dropped", "wrong index", "c++")
def stride_dropped(source: str) -> Iterator[Site]:
    """row * stride in an address becomes row."""
    cpp = Cpp(source)
    for k in cpp.signs("*"):
        last = cpp.right(k + 1)
        if last is not None and cpp.is_binary(k) and _in_addresses(cpp, k):
            yield _put(cpp, k, last, "")


# --- off by one, skipped tail -------------------------------------------------------------------------------
def _loop_bounds(cpp: Cpp) -> Iterator[tuple[int, int, int]]:
    """Of each counting loop: the ``<`` and the first and last token of its bound."""
    for _, first, second, _ in cpp.loops():
        signs = [k for k in range(first + 1, second) if cpp[k] == "<" and k not in cpp.frozen]
        if len(signs) == 1 and signs[0] + 1 < second:
            yield signs[0], signs[0] + 1, second - 1


@operator("loop-end-early", "off by one", "c++")
def loop_end_early(source: str) -> Iterator[Site]:
    """i < n of a loop becomes i < n - 1."""
    cpp = Cpp(source)
    for _, first, last in _loop_bounds(cpp):
        yield _put(cpp, first, last, f"({cpp.span(first, last)}) - 1")


@operator("loop-end-late", "off by one", "c++")
def loop_end_late(source: str) -> Iterator[Site]:
    """i < n of a loop becomes i <= n."""
    cpp = Cpp(source)
    for sign, _, _ in _loop_bounds(cpp):
        yield _put(cpp, sign, sign, "<=")


@operator("loop-start-late", "off by one", "c++")
def loop_start_late(source: str) -> Iterator[Site]:
    """int i = a of a loop becomes int i = a + 1."""
    cpp = Cpp(source)
    for opened, first, _, _ in cpp.loops():
        signs = [k for k in range(opened + 1, first) if cpp[k] == "="]
        if len(signs) == 1:
            yield _put(cpp, signs[0] + 1, first - 1, f"{cpp.span(signs[0] + 1, first - 1)} + 1")


@operator("loop-rounded-down", "skipped tail", "c++")
def loop_rounded_down(source: str) -> Iterator[Site]:
    """i < n of a loop becomes i < (n - 1) / 8 * 8: whole eights, and always at least one element short."""
    cpp = Cpp(source)
    for _, first, last in _loop_bounds(cpp):
        yield _put(cpp, first, last, f"(({cpp.span(first, last)}) - 1) / 8 * 8")


@operator("blocks-rounded-down", "skipped tail", "c++")
def blocks_rounded_down(source: str) -> Iterator[Site]:
    """(n + block - 1) / block becomes n / block."""
    cpp = Cpp(source)
    for k in cpp.signs("/"):
        opened = cpp.match.get(k - 1)
        if cpp[k - 1] != ")" or opened is None or cpp[k - 3] != "-" or cpp[k - 2] != "1":
            continue
        plus = [j for j in range(opened + 1, k) if cpp[j] == "+"]
        if len(plus) == 1:
            yield _put(cpp, opened, k - 1, f"({cpp.span(opened + 1, plus[0] - 1)})")


@operator("tail-loop-deleted", "skipped tail", "c++")
def tail_loop_deleted(source: str) -> Iterator[Site]:
    """for (; i < n; ++i) { ... }, which goes on where another loop stopped, is deleted."""
    cpp = Cpp(source)
    for opened, first, _, close in cpp.loops():
        last = cpp.match.get(close + 1) if cpp[close + 1] == "{" else cpp.statement_end(close + 1)
        if first == opened + 1 and last is not None and _goes_on(cpp, opened, first):
            yield _put(cpp, opened - 1, last, ";")


def _goes_on(cpp: Cpp, opened: int, first: int) -> bool:
    """Whether an earlier loop without a start of its own has the same counter."""
    return any(f == o + 1 and o < opened and cpp[f + 1] == cpp[first + 1] for o, f, _, _ in cpp.loops())


# --- dropped term -------------------------------------------------------------------------------------------
@operator("addend-dropped", "dropped term", "c++")
def addend_dropped(source: str) -> Iterator[Site]:
    """a + b or a - b in an expression of values becomes a."""
    cpp = Cpp(source)
    for k in cpp.signs("+", "-"):
        last = cpp.term(k + 1)
        if cpp.is_binary(k) and last is not None and not cpp.inside(k, "[") and not _in_head(cpp, k):
            yield _put(cpp, k, last, "")


@operator("factor-dropped", "dropped term", "c++")
def factor_dropped(source: str) -> Iterator[Site]:
    """a * b or a / b in an expression of values becomes a."""
    cpp = Cpp(source)
    for k in cpp.signs("*", "/"):
        last = cpp.right(k + 1)
        if cpp.is_binary(k) and last is not None and not _in_addresses(cpp, k) and not _in_head(cpp, k):
            yield _put(cpp, k, last, "")


@operator("step-deleted", "dropped term", "c++")
def step_deleted(source: str) -> Iterator[Site]:
    """x op= e; is deleted."""
    cpp = Cpp(source)
    for k in cpp.signs("+=", "-=", "*=", "/="):
        first, end = cpp.left(k - 1), cpp.statement_end(k)
        if first is not None and end is not None and not _in_head(cpp, k):
            yield _put(cpp, first, end, ";")


@operator("accumulation-overwritten", "dropped term", "c++")
def accumulation_overwritten(source: str) -> Iterator[Site]:
    """x += e becomes x = e."""
    cpp = Cpp(source)
    for k in cpp.signs("+=", "*="):
        if not _in_head(cpp, k):
            yield _put(cpp, k, k, "=")


def _in_head(cpp: Cpp, k: int) -> bool:
    """Whether a token is in the head of a loop."""
    return any(opened < k < close for opened, _, _, close in cpp.loops())


# --- swapped operands ---------------------------------------------------------------------------------------
@operator("operands-swapped", "swapped operands", "c++")
def operands_swapped(source: str) -> Iterator[Site]:
    """a - b becomes b - a, a / b becomes b / a."""
    cpp = Cpp(source)
    for k in cpp.signs("-", "/"):
        first, last = cpp.left(k - 1), cpp.right(k + 1)
        if cpp.is_binary(k) and first is not None and last is not None and not _in_head(cpp, k):
            if cpp[first - 1] not in ("/", "*", "-", "%"):
                yield _put(cpp, first, last, f"{cpp.span(k + 1, last)} {cpp[k]} {cpp.span(first, k - 1)}")


@operator("comparison-flipped", "swapped operands", "c++")
def comparison_flipped(source: str) -> Iterator[Site]:
    """a < b becomes b < a, outside of loops' heads."""
    cpp = Cpp(source)
    for k in cpp.signs("<", ">"):
        if cpp.is_binary(k) and not _in_head(cpp, k):
            yield _put(cpp, k, k, ">" if cpp[k] == "<" else "<")


@operator("choice-swapped", "swapped operands", "c++")
def choice_swapped(source: str) -> Iterator[Site]:
    """c ? a : b becomes c ? b : a."""
    cpp = Cpp(source)
    for k in cpp.signs("?"):
        colon = next((j for j in range(k + 1, min(k + 40, len(cpp))) if cpp[j] in (":", ";", "?")), None)
        if colon is None or cpp[colon] != ":":
            continue
        last = cpp.term(colon + 1)
        while last is not None and cpp[last + 1] in ("+", "-"):
            last = cpp.term(last + 2)
        if last is not None:
            yield _put(cpp, k + 1, last, f"{cpp.span(colon + 1, last)} : {cpp.span(k + 1, colon - 1)}")


@operator("arguments-swapped", "swapped operands", "c++")
def arguments_swapped(source: str) -> Iterator[Site]:
    """f(a, b) with two simple arguments becomes f(b, a), where that is not the same (max, min, fmaxf)."""
    cpp = Cpp(source)
    for k in cpp.signs("("):
        close = cpp.match.get(k)
        if close == k + 4 and cpp[k + 2] == "," and cpp.tokens[k - 1].kind == "name":
            if cpp[k - 1] not in ("if", "for", "while", "max", "min", "fmaxf", "fminf", "dim3", "__shfl_down_sync"):
                if cpp[k - 2] not in TYPES and {cpp.tokens[k + 1].kind, cpp.tokens[k + 3].kind} == {"name"}:
                    yield _put(cpp, k + 1, k + 3, f"{cpp[k + 3]}, {cpp[k + 1]}")


# --- wrong epsilon ------------------------------------------------------------------------------------------
def _epsilons(cpp: Cpp) -> Iterator[int]:
    for k, token in enumerate(cpp.tokens):
        if k in cpp.frozen:
            continue
        small = token.kind == "number" and _SMALL.match(token.text)
        named = token.kind == "name" and _EPSILON.match(token.text) and cpp[k - 1] not in TYPES
        if (small or named) and cpp[k + 1] != "=":
            yield k


@operator("epsilon-hundredfold", "wrong epsilon", "c++")
def epsilon_hundredfold(source: str) -> Iterator[Site]:
    """eps becomes 100 * eps."""
    cpp = Cpp(source)
    for k in _epsilons(cpp):
        yield _put(cpp, k, k, f"(100 * {cpp[k]})")


@operator("epsilon-zero", "wrong epsilon", "c++")
def epsilon_zero(source: str) -> Iterator[Site]:
    """eps becomes 0 * eps."""
    cpp = Cpp(source)
    for k in _epsilons(cpp):
        yield _put(cpp, k, k, f"(0 * {cpp[k]})")


# --- missing bound check ------------------------------------------------------------------------------------
@operator("condition-always", "missing bound check", "c++")
def condition_always(source: str) -> Iterator[Site]:
    """if (a < b) becomes if (true), and never where the branch only leaves (continue, return, break)."""
    cpp = Cpp(source)
    for k in cpp.signs("if"):
        close = cpp.match.get(k + 1)
        if close is None or not any(cpp[j] in ("<", "<=", ">", ">=") for j in range(k + 2, close)):
            continue
        leaves = cpp[close + 1 + (cpp[close + 1] == "{")] in ("continue", "return", "break")
        yield _put(cpp, k + 2, close - 1, "false" if leaves else "true")


@operator("conjunct-dropped", "missing bound check", "c++")
def conjunct_dropped(source: str) -> Iterator[Site]:
    """a && b, or a || b, becomes a."""
    cpp = Cpp(source)
    for k in cpp.signs("&&", "||"):
        last = k + 1
        while last < len(cpp) and cpp[last] not in (")", "&&", "||", ";", "?", "}", ","):
            last = cpp.match[last] + 1 if cpp[last] in "([{" and last in cpp.match else last + 1
        if last < len(cpp):
            yield _put(cpp, k, last - 1, "")


@operator("clamp-dropped", "missing bound check", "c++")
def clamp_dropped(source: str) -> Iterator[Site]:
    """min(a, b) of whole numbers becomes a."""
    cpp = Cpp(source)
    for k in cpp.signs("min"):
        j = k + 1
        while cpp[j] != "(" and j < k + 6:
            j += 1
        close = cpp.match.get(j)
        comma = next((i for i in range(j + 1, close or j) if cpp[i] == "," and _depth(cpp, j, i) == 1), None)
        first = k - 2 if cpp[k - 1] == "::" else k
        if close is not None and comma is not None:
            yield _put(cpp, first, close, f"({cpp.span(j + 1, comma - 1)})")


def _depth(cpp: Cpp, first: int, index: int) -> int:
    return sum((cpp[j] in "([{") - (cpp[j] in ")]}") for j in range(first, index))


# --- uninitialised accumulator ------------------------------------------------------------------------------
def _starts(cpp: Cpp) -> Iterator[tuple[int, int, int]]:
    """Declared floating variables with a constant start: (``=``, first and last token of the start)."""
    for k in cpp.signs("="):
        name = k - 1
        if cpp[name] == "]":
            name = cpp.match.get(name, 0) - 1
        if cpp[name - 1] not in ("float", "double", "scalar_t", "accscalar_t", "acc_t") or cpp[name - 2] == "const":
            continue
        end = cpp.statement_end(k)
        if end is not None and not any(cpp[j] == "," and _depth(cpp, k, j) == 0 for j in range(k, end)):
            words = [cpp.tokens[j] for j in range(k + 1, end)]
            if all(t.kind == "number" or t.text in "{}-" or _LOWEST.match(t.text) for t in words):
                yield k, k + 1, end - 1


@operator("start-missing", "uninitialised accumulator", "c++")
def start_missing(source: str) -> Iterator[Site]:
    """float sum = 0; becomes float sum;."""
    cpp = Cpp(source)
    for sign, _, last in _starts(cpp):
        yield _put(cpp, sign, last, "")


@operator("start-one", "uninitialised accumulator", "c++")
def start_one(source: str) -> Iterator[Site]:
    """float sum = 0; becomes float sum = 1;, and so does a start at the lowest value."""
    cpp = Cpp(source)
    for _, first, last in _starts(cpp):
        old = cpp.span(first, last)
        yield _put(cpp, first, last, "{1.0f}" if old.startswith("{") else "1.0f" if old != "1.0f" else "0.0f")


@operator("zeros-empty", "uninitialised accumulator", "c++")
def zeros_empty(source: str) -> Iterator[Site]:
    """torch::zeros becomes torch::empty."""
    cpp = Cpp(source)
    for k in cpp.signs("zeros", "zeros_like"):
        yield _put(cpp, k, k, cpp[k].replace("zeros", "empty"))


# --- wrong axis ---------------------------------------------------------------------------------------------
@operator("extent-swapped", "wrong axis", "c++")
def extent_swapped(source: str) -> Iterator[Site]:
    """rows becomes columns (height width, M N), in one place where it is read."""
    cpp = Cpp(source)
    for k in cpp.signs(*_PAIRS):
        declared = cpp[k - 1] in TYPES or (cpp[k - 1] in (",", "*", "&") and cpp[k + 1] == "=") or cpp[k + 1] == "="
        if cpp.tokens[k].kind == "name" and not declared and _PAIRS[cpp[k]] in {t.text for t in cpp.tokens[:k]}:
            yield _put(cpp, k, k, _PAIRS[cpp[k]])


@operator("axis-of-size", "wrong axis", "c++")
def axis_of_size(source: str) -> Iterator[Site]:
    """x.size(0) becomes x.size(1), any other axis the one before."""
    cpp = Cpp(source)
    for k in cpp.signs("size"):
        if cpp[k + 1] == "(" and cpp.match.get(k + 1) == k + 3 and cpp[k + 2].isdigit():
            yield _put(cpp, k + 2, k + 2, str(int(cpp[k + 2]) - 1) if cpp[k + 2] != "0" else "1")


@operator("thread-axis", "wrong axis", "c++")
def thread_axis(source: str) -> Iterator[Site]:
    """threadIdx.x becomes threadIdx.y and the other way round, as for blockIdx, blockDim and gridDim."""
    cpp = Cpp(source)
    for k in cpp.signs("threadIdx", "blockIdx", "blockDim", "gridDim"):
        if cpp[k + 2] in ("x", "y", "z"):
            yield _put(cpp, k + 2, k + 2, {"x": "y", "y": "x", "z": "y"}[cpp[k + 2]])


# --- narrowed precision -------------------------------------------------------------------------------------
def _accumulations(cpp: Cpp) -> Iterator[tuple[str, str, int, int]]:
    """x += e;: text of x and of e, first token and last before the semicolon."""
    for k in cpp.signs("+="):
        first, end = cpp.left(k - 1), cpp.statement_end(k)
        if first is not None and end is not None and not _in_head(cpp, k):
            yield cpp.span(first, k - 1), cpp.span(k + 1, end - 1), first, end - 1


@operator("accumulator-bfloat16", "narrowed precision", "c++")
def accumulator_bfloat16(source: str) -> Iterator[Site]:
    """x += e rounds x to bfloat16 at every step."""
    cpp = Cpp(source)
    for name, value, first, last in _accumulations(cpp):
        yield _put(
            cpp, first, last, f"{name} = static_cast<float>(c10::BFloat16(static_cast<float>({name} + ({value}))))"
        )


@operator("addend-half", "narrowed precision", "c++")
def addend_half(source: str) -> Iterator[Site]:
    """x += e rounds e to float16."""
    cpp = Cpp(source)
    for name, value, first, last in _accumulations(cpp):
        yield _put(cpp, first, last, f"{name} += static_cast<float>(c10::Half(static_cast<float>({value})))")


@operator("store-bfloat16", "narrowed precision", "c++")
def store_bfloat16(source: str) -> Iterator[Site]:
    """a[i] = e rounds e to bfloat16."""
    cpp = Cpp(source)
    for k in cpp.signs("="):
        end = cpp.statement_end(k)
        if cpp[k - 1] != "]" or end is None or k - 1 not in {close for _, close in _subscripts(cpp)}:
            continue
        if cpp[k + 1] != "{":
            new = f"static_cast<float>(c10::BFloat16(static_cast<float>({cpp.span(k + 1, end - 1)})))"
            yield _put(cpp, k + 1, end - 1, new)


# --- lost sync ----------------------------------------------------------------------------------------------
@operator("sync-deleted", "lost sync", "c++")
def sync_deleted(source: str) -> Iterator[Site]:
    """__syncthreads(); is deleted, as are __syncwarp and the groups' own."""
    cpp = Cpp(source)
    for k in cpp.signs("__syncthreads", "__syncwarp", "__threadfence"):
        close = cpp.match.get(k + 1)
        if close is not None and cpp[close + 1] == ";":
            yield _put(cpp, k, close, "")


@operator("atomic-lost", "lost sync", "c++")
def atomic_lost(source: str) -> Iterator[Site]:
    """atomicAdd(p, v) becomes *(p) += v."""
    cpp = Cpp(source)
    for k in cpp.signs("atomicAdd"):
        close = cpp.match.get(k + 1)
        comma = next((i for i in range(k + 2, close or k) if cpp[i] == "," and _depth(cpp, k + 1, i) == 1), None)
        if close is not None and comma is not None and cpp[k - 1] in (";", "{", "}", ")"):
            yield _put(cpp, k, close, f"*({cpp.span(k + 2, comma - 1)}) += {cpp.span(comma + 1, close - 1)}")
