"""Which code shapes a stage's record: a digest over the modules that the stage depends on.

Snakemake notices an edited input, but not an edited module. So each stage's rule carries this digest in its
``params:``; editing a module reruns the stages that import it, directly or not, and what follows. A comment, a
docstring or a reformatted line changes no digest, since the syntax tree is hashed and not the text.

Constants come in through ``protocol.digest(stage)``, by value, so ``protocol`` itself is left out here: changing tau
must not rerun a stage. Torch-free: nothing is imported, the sources are only parsed.
"""

from __future__ import annotations

import ast
import gc
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = "kbverified"
PACKAGE_ROOT = Path(__file__).parent

# Where each stage begins. What these import is found by reading them; a module that is started as a process of
# its own, and therefore imported by nobody, is named here.
ROOTS: dict[str, tuple[str, ...]] = {
    "audit-problem": ("stages", "devices", "judge.audit", "lease", "precision", "problems"),
    "ceilings": ("roofline.ceilings", "devices", "lease", "precision"),
    "compile": ("stages", "judge.build", "worker"),
    "hidden-gate": ("stages", "judge.gate", "judge.stage", "worker", "compilation.directory"),
    "time-fp32": ("stages", "judge.timing", "judge.stage", "worker", "compilation.directory"),
    "time-tf32": ("stages", "judge.timing", "judge.stage", "worker", "compilation.directory"),
    "time-ieee": ("stages", "judge.timing", "judge.stage", "worker", "compilation.directory"),
    "time-compile": ("stages", "judge.compiled", "judge.timing", "judge.stage", "worker", "compilation.directory"),
    "memory": ("stages", "judge.memory", "judge.stage", "worker", "compilation.directory"),
    "aggregate": ("aggregation",),
    "leaderboard": ("aggregation", "leaderboard"),
    "page": ("aggregation", "page.build"),
    "llm-judge": ("llm_judges.judge",),
    "llm-labels": ("llm_judges.plan", "llm_judges.review"),
    "paper": ("aggregation", "leaderboard", "paper.build"),
}
# Count themselves, but not what they import: one hands over to one of many, one brings an answer from elsewhere.
NOT_FOLLOWED = ("stages.py", "paid_answers.py")

# Modules and packages at which following ends, because their content reaches a measuring stage in another way:
# constants by value in protocol.digest(stage), the shape of records by SCHEMA_VERSION and by the modules that fill
# them, paths by being the rules' inputs and outputs. The stages that only interpret records depend on all of it that
# they import.
LEFT_OUT = ("keys.py", "protocol.py", "records")
INTERPRETING = ("aggregate", "leaderboard", "page", "paper", "llm-judge", "llm-labels")


@cache
def digest(stage: str, *more: str) -> str:
    """Sha256 (hex) over the modules that shape what a stage writes; stages are the keys of ROOTS.

    ``more``: further modules to begin with, which are loaded by name. Raises ValueError for an unknown stage,
    FileNotFoundError where a module named in ROOTS is gone.
    """
    total = hashlib.sha256()
    for path in files(stage, *more):
        total.update(str(path.relative_to(PACKAGE_ROOT)).encode() + b"\0" + _read(path)[1] + b"\0")
    return total.hexdigest()


def files(stage: str, *more: str) -> list[Path]:
    """The files that enter a stage's digest, sorted. Raises as ``digest`` does."""
    if stage not in ROOTS:
        raise ValueError(f"stage {stage!r} is none of {', '.join(ROOTS)}")
    found: set[Path] = set()
    folders: set[Path] = set()
    left_out = () if stage in INTERPRETING else LEFT_OUT
    waiting = [_module_path(name) for name in (*ROOTS[stage], *more)]
    while waiting:
        path = waiting.pop()
        place = path.relative_to(PACKAGE_ROOT)
        if path in found or place.parts[0] in left_out:
            continue
        found.add(path)
        if path.suffix == ".py" and str(place) not in NOT_FOLLOWED:
            waiting.extend(_read(path)[0])
        if path.parent not in folders:
            folders.add(path.parent)
            # A package's other files (C++ or CUDA headers, templates) are read by its modules.
            others = (*path.parent.iterdir(), *path.parent.joinpath("assets").rglob("*"))
            waiting.extend(p for p in others if p.suffix not in (".py", ".pyc", ".typed") and p.is_file())
    return sorted(found)


def _module_path(dotted: str) -> Path:
    """The file of a module named relative to the package, as ``judge.gate``. Raises FileNotFoundError."""
    base = PACKAGE_ROOT.joinpath(*dotted.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    raise FileNotFoundError(f"{base}.py: no such module; correct ROOTS in {__file__}")


@cache
def _read(path: Path) -> tuple[tuple[Path, ...], bytes]:
    """Of a file of the package: the files of what it imports from it, and the digest of what it does.

    Every plan of a run waits for this. A tree is hundreds of thousands of objects, none of them in a cycle: looking for
    cycles among them takes longer than to make them, and keeping them would slow every later search.
    """
    content = path.read_bytes()
    if path.suffix != ".py":
        return (), hashlib.sha256(content).digest()
    searching = gc.isenabled()
    gc.disable()
    try:
        tree = ast.parse(content, filename=str(path))
        return _imports(tree, path), _digest(tree)
    finally:
        if searching:
            gc.enable()


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """The module and every line in it, at any depth: imports and docstrings are nowhere else."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting.extend(getattr(node, block, ()))


def _imports(tree: ast.Module, path: Path) -> tuple[Path, ...]:
    """Files of the package's own modules that a module imports, at its head or inside a function."""
    names: set[str] = set()
    inside = path.relative_to(PACKAGE_ROOT).parent.parts
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = (PACKAGE, *inside)[: len(inside) + 2 - node.level]
                base = ".".join((*above, base) if base else above)
            # ``from package import name``: name may be a module of its own.
            names.update((base, *(f"{base}.{alias.name}" for alias in node.names)))
    found: set[Path] = set()
    for name in names:
        head, _, rest = name.partition(".")
        if head != PACKAGE:
            continue
        parts = rest.split(".") if rest else []
        # Importing a.b.c runs the __init__ of a and of a.b too.
        for depth in range(len(parts) + 1):
            module = PACKAGE_ROOT.joinpath(*parts[:depth])
            found.update(p for p in (module.with_suffix(".py"), module / "__init__.py") if depth and p.is_file())
    return tuple(sorted(found))


def _digest(tree: ast.Module) -> bytes:
    for node in _statements(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            # A bare string is a docstring, of the module, class, function or of the field above it.
            node.body = [line for line in node.body if not _is_bare_string(line)] or [ast.Pass()]
    return hashlib.sha256(ast.dump(tree).encode()).digest()


def _is_bare_string(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)
