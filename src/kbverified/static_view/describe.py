"""One description of a candidate: kind, languages, labels, constructs, and the problem's operators it still calls."""

from __future__ import annotations

import ast
from dataclasses import asdict, dataclass
from typing import Any

from kbverified.static_view import cplusplus, flags, renamed
from kbverified.static_view.cplusplus import Body
from kbverified.static_view.delegation import Operators
from kbverified.static_view.kernels import TEXT_LIMIT_CHARACTERS, Extension, PythonKernel, extensions, python_kernels
from kbverified.static_view.program import FUNCTIONS, Program
from kbverified.static_view.reach import Reach

KINDS = ("torch only", "library call", "custom kernel", "mixed")
LABELS = ("renamed reference", "decoy kernel", "try/except fallback")
TORCH = "Python/torch"

# Python packages whose functions are somebody else's kernels.
_LIBRARY_PACKAGES = (
    "flash_attn",
    "xformers",
    "apex",
    "transformer_engine",
    "flashinfer",
    "deep_gemm",
    "bitsandbytes",
    "cutlass.op",
    "cupy.linalg",
    "cupy.cublas",
    "cupy.cudnn",
    "cupy.matmul",
)


@dataclass(frozen=True)
class View:
    """What is said of one source. ``kind`` None: ``why_null`` says why nothing is."""

    kind: str | None
    why_null: str | None = None
    languages: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    problem_operators: tuple[str, ...] = ()
    delegated: tuple[str, ...] = ()
    """Those of the problem's operators that running code still leaves to torch or a library."""
    other_operators: tuple[str, ...] = ()
    """Torch operators that running code calls beside those."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Problem:
    """What of a problem a description is compared with."""

    fingerprint: str | None
    operators: tuple[str, ...]


def problem_of(text: str) -> Problem:
    """Read a problem. Raises what parsing raises."""
    program = Program(text)
    info = program.root_class("Model")
    if info is None:
        return Problem(None, ())
    reach = Reach(program, {}, {}).enter(info)
    return Problem(renamed.fingerprint(program, "Model"), tuple(sorted(Operators(program).of(reach))))


class _Reached:
    """What one closure comes to: kernels of any language, libraries, operators."""

    def __init__(self, reach: Reach, finder: Operators) -> None:
        self.reach = reach
        used = reach.attributes | {name.rpartition(".")[2] for name in reach.torch_ops}
        # An extension built with is_python_module=False is called through torch.ops and named nowhere.
        through_ops = {node: e for node, e in reach.all_extensions.items() if e.source.exports.keys() & used}
        found = {**reach.extensions, **(through_ops if reach.torch_ops else {})}
        self.extensions: dict[ast.AST, dict[str, Body]] = {}
        for node, extension in found.items():
            bodies = _bodies(extension, used)
            if bodies:
                self.extensions[node] = bodies
        bodies_of = [body for bodies in self.extensions.values() for body in bodies.values()]
        self.python_operators = finder.of(reach)
        self.cpp_operators = {name for body in bodies_of for name in body.operators}
        self.libraries = {name for body in bodies_of for name in body.libraries}
        self.libraries |= {"torch.ops" for name in reach.torch_ops if not self.extensions}
        paths = {
            reach.program.dotted(call.func)
            for node in reach.run_nodes
            for call in ast.walk(node)
            if isinstance(call, ast.Call)
        }
        self.libraries |= {p.partition(".")[0] for p in paths if p and p.startswith(_LIBRARY_PACKAGES)}
        self.custom_bodies = [body for body in bodies_of if body.is_kernel or body.has_own_loop]

    @property
    def has_custom(self) -> bool:
        return bool(self.reach.kernels or self.custom_bodies)

    @property
    def has_kernel_call(self) -> bool:
        return bool(self.reach.kernels or self.extensions)

    @property
    def operators(self) -> set[str]:
        return {*self.python_operators, *self.cpp_operators}

    def languages(self) -> tuple[str, ...]:
        found = {kernel.language for kernel in self.reach.kernels.values()}
        for bodies in self.extensions.values():
            found.add("CUDA C++" if any(body.is_kernel for body in bodies.values()) else "C++")
        if self.python_operators or not found:
            found.add(TORCH)
        return tuple(sorted(found))


def _bodies(extension: Extension, used: set[str]) -> dict[str, Body]:
    source = extension.source
    if extension.called_directly:
        return dict(source.functions)
    return source.reached(used, set(extension.functions))


def describe(text: str, problem: Problem | None) -> View:
    """Describe a source. Raises what parsing raises, and RecursionError for a tree that is too deep."""
    program = Program(text)
    kernels, built = python_kernels(program), extensions(program)
    info = program.root_class("ModelNew")
    if info is None:
        found = flags.find(program, None)
        return View(None, "no class ModelNew in the text", flags=tuple(flags.lines_text(found)))
    finder = Operators(program)
    reach = Reach(program, kernels, built).enter(info)
    reached = _Reached(reach, finder)
    found = flags.find(program, reach)
    found |= _unreached(reached, kernels, built) | _torch_branches(program, reached, finder)
    operators = problem.operators if problem else ()
    delegated = tuple(name for name in operators if name in reached.operators)
    return View(
        kind=_kind(reached),
        languages=reached.languages(),
        labels=tuple(_labels(program, reached, finder, problem)),
        flags=tuple(flags.lines_text(dict(sorted(found.items())))),
        problem_operators=operators,
        delegated=delegated,
        other_operators=tuple(sorted(reached.operators - set(operators))),
    )


def _kind(reached: _Reached) -> str:
    elsewhere = bool(reached.libraries or reached.operators)
    if reached.has_custom:
        return "mixed" if elsewhere else "custom kernel"
    return "library call" if reached.libraries or reached.extensions else "torch only"


def _labels(program: Program, reached: _Reached, finder: Operators, problem: Problem | None) -> list[str]:
    labels = []
    if problem is not None and problem.fingerprint is not None:
        if renamed.fingerprint(program, "ModelNew") == problem.fingerprint:
            labels.append("renamed reference")
    reach = reached.reach
    built = any(e.source.kernels for e in reach.all_extensions.values())
    defines = bool(reach.all_kernels) or built or _has_kernel_text(program)
    if defines and not reached.has_custom:
        labels.append("decoy kernel")
    if _falls_back(program, reached, finder):
        labels.append("try/except fallback")
    return labels


def _has_kernel_text(program: Program) -> bool:
    """Whether a text of the module, docstrings left out, defines a CUDA kernel; nothing known may ever build it."""
    return any(
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and not isinstance(program.parents.get(node), ast.Expr)
        and any(body.is_kernel for body in cplusplus.read(node.value[:TEXT_LIMIT_CHARACTERS]).functions.values())
        for node in program.parents
        if not isinstance(node, ast.Constant) or "__global__" in str(node.value)
    )


# --- fallbacks and branches ---------------------------------------------------------------------------------


def _part(reached: _Reached, finder: Operators, nodes: list[ast.stmt] | list[ast.expr]) -> _Reached:
    whole = reached.reach
    return _Reached(Reach(whole.program, whole.all_kernels, whole.all_extensions).run(nodes), finder)


def _running(program: Program, reached: _Reached, kinds: type | tuple[type, ...]) -> list[ast.AST]:
    return [n for top in reached.reach.run_nodes for n in ast.walk(top) if isinstance(n, kinds)]


def _falls_back(program: Program, reached: _Reached, finder: Operators) -> bool:
    """A try around a kernel (or around building it) whose failure leaves the work to torch."""
    running = set(_running(program, reached, ast.Try))
    for node in program.parents:
        if not isinstance(node, ast.Try) or not node.handlers:
            continue
        passing = [handler.body for handler in node.handlers if not _always_raises(handler.body)]
        if not passing:
            continue
        if node in running:
            if not _part(reached, finder, node.body).has_kernel_call:
                continue
            caught = [line for body in passing for line in body]
            if _part(reached, finder, caught).operators or reached.python_operators:
                return True
        elif reached.has_kernel_call and reached.python_operators and _builds(program, reached, node):
            return True
    return False


def _builds(program: Program, reached: _Reached, node: ast.Try) -> bool:
    """Whether a try outside of forward makes a kernel: builds an extension, defines a kernel, imports a compiler."""
    below = {part for line in node.body for part in ast.walk(line)}
    whole = reached.reach
    if below & (whole.all_kernels.keys() | whole.all_extensions.keys()):
        return True
    imports = [p for p in below if isinstance(p, ast.Import | ast.ImportFrom)]
    names = [a.name for p in imports for a in p.names] + [
        p.module or "" for p in imports if isinstance(p, ast.ImportFrom)
    ]
    if any(name.split(".")[0] in ("triton", "cupy", "numba", "cutlass", "tilelang") for name in names):
        return True
    called = [p.func for p in below if isinstance(p, ast.Call)]
    makers = [f for c in called if isinstance(c, ast.Name) for f in program.functions.get(c.id, ())]
    info = program.enclosing_class(node)
    if info is not None:
        makers += [f for c in called if isinstance(c, ast.Attribute) for f in info.methods.get(c.attr, ())]
    return any(part in whole.all_extensions for maker in makers for part in ast.walk(maker))


def _always_raises(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Raise)


def _torch_branches(program: Program, reached: _Reached, finder: Operators) -> dict[str, list[int]]:
    """Conditions in running code of which one side runs a kernel and the other leaves the work to torch."""
    if not reached.has_kernel_call or not reached.python_operators:
        return {}
    lines = set()
    for node in _running(program, reached, ast.If):
        assert isinstance(node, ast.If)
        sides = [_part(reached, finder, node.body), _part(reached, finder, node.orelse)]
        torch = [bool(side.python_operators) and not side.has_kernel_call for side in sides]
        leaves = isinstance(node.body[-1], ast.Return) and not node.orelse
        if (torch[0] and (sides[1].has_kernel_call or leaves)) or (torch[1] and sides[0].has_kernel_call):
            lines.add(node.lineno)
    return {"torch branch": sorted(lines)} if lines else {}


def _unreached(
    reached: _Reached, kernels: dict[ast.AST, PythonKernel], built: dict[ast.AST, Extension]
) -> dict[str, list[int]]:
    lines = {k.node.lineno for node, k in kernels.items() if node not in reached.reach.kernels and _is_entry(k)}
    for node, extension in built.items():
        names = {name for bodies in [reached.extensions.get(node, {})] for name in bodies}
        if extension.source.kernels - names:
            lines.add(extension.node.lineno)
    return {"unreached kernel": sorted(lines)} if lines else {}


def _is_entry(kernel: PythonKernel) -> bool:
    """Kernels call helpers of the same dialect, which nobody launches: those have no pointers among their names."""
    names = [arg.arg.lower() for arg in kernel.node.args.args]
    return isinstance(kernel.node, FUNCTIONS) and any("ptr" in name for name in names)
