"""Constructs that a reviewer may want to look at, with the lines where they stand. None of them proves anything."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from kbverified.static_view.program import Program
from kbverified.static_view.reach import Reach

LARGE_LITERAL_NUMBERS = 64
LARGE_LITERAL_CHARACTERS = 2048

# By full name: the first pattern that matches names the construct.
_BY_PATH = (
    ("gc", r"gc(\.|$)"),
    ("inspect", r"inspect(\.|$)|traceback\.|dis(\.|$)"),
    ("frames", r"sys\.(_getframe|settrace|setprofile|_current_frames|exc_info)"),
    ("interpreter state", r"sys\.(modules|meta_path|path_hooks|addaudithook)|builtins(\.|$)|__main__"),
    ("ctypes", r"(ctypes|cffi|mmap)(\.|$)"),
    ("exit", r"atexit(\.|$)|(os\._exit|os\.abort|sys\.exit)$"),
    ("subprocess", r"subprocess(\.|$)|os\.(system|popen|exec\w*|spawn\w*|fork\w*|posix_spawn\w*)$|pty(\.|$)"),
    ("network", r"(socket|urllib|requests|http|ssl|ftplib)(\.|$)"),
    ("signals", r"signal(\.|$)|os\.kill"),
    ("environment", r"os\.(environ|getenv|putenv)"),
    ("files", r"(shutil|tempfile|pickle|io|mmap|glob)\.|os\.(open|read|write|remove|unlink|rename|replace"
              r"|mkdir|makedirs|listdir|scandir|link|symlink|chmod|dup\w*|pipe|memfd_create)$|torch\.(save|load|from_file)$"
              r"|numpy\.(load|save|memmap|fromfile)|pathlib\."),
    ("os", r"os\.(?!path\b)\w+"),
    ("threads", r"(threading|multiprocessing|concurrent|asyncio|_thread)(\.|$)|torch\.multiprocessing"),
    ("dynamic import", r"importlib(\.|$)|runpy(\.|$)"),
    ("default dtype or device", r"torch\.set_default_(dtype|device|tensor_type)$"),
    ("backend flags", r"torch\.(set_float32_matmul_precision|use_deterministic_algorithms|set_deterministic\w*"
                      r"|set_flush_denormal|set_num_threads)$"),
    ("CUDA graphs", r"torch\.cuda\.(CUDAGraph|graph|make_graphed_callables)"),
    ("streams", r"torch\.cuda\.(Stream|stream|ExternalStream|set_stream)$"),
    ("random state", r"torch\.(manual_seed|seed|set_rng_state|random\.\w+)$"
                     r"|torch\.cuda\.(manual_seed\w*|set_rng_state)$"),
    ("narrow cast", r"torch\.(half|float16|bfloat16|float8\w*|HalfTensor|autocast|amp\.\w+|cuda\.amp\.\w+)"
                    r"|triton\.language\.(float16|bfloat16|float8\w*)$"),
    ("torch.compile", r"torch\.(compile|jit\.\w+)$"),
    ("clock", r"time\.(time|perf_counter|monotonic|sleep)\w*$|torch\.cuda\.Event$"),
)  # fmt: skip
_PATHS = [(name, re.compile(pattern)) for name, pattern in _BY_PATH]

_BY_ATTRIBUTE = {
    **dict.fromkeys(
        ("__code__", "__globals__", "__closure__", "__defaults__", "co_code", "__wrapped__"), "code object"
    ),
    **dict.fromkeys(("f_back", "f_locals", "f_globals", "tb_frame", "gi_frame"), "frames"),
    **dict.fromkeys(("__subclasses__", "__builtins__", "__loader__", "__dict__"), "interpreter state"),
    **dict.fromkeys(("half", "bfloat16"), "narrow cast"),
    **dict.fromkeys(("write_text", "write_bytes", "read_text", "read_bytes"), "files"),
    **dict.fromkeys(("__torch_function__", "__torch_dispatch__", "_make_subclass"), "tensor subclass"),
}
_BY_NAME = {
    **dict.fromkeys(("exec", "eval", "compile", "__import__"), "exec or eval"),
    **dict.fromkeys(("globals", "vars", "__builtins__", "__loader__"), "interpreter state"),
    "open": "files",
}
_IN_CPP = (
    ("narrow cast",
     re.compile(r"\b(?:__half2?|(?:__)?nv_bfloat162?|__float2half\w*|__nv_fp8\w*|kHalf|kBFloat16|const half2?)\b"
                r"|<\s*half2?\s*[>,*]|\bhalf2?\s+\w+\s*[=;,\[]")),
    ("TF32", re.compile(r"precision::tf32|CUBLAS_COMPUTE_32F_FAST|CUBLAS_TF32|cvt\.rna\.tf32|mma\.sync\S*tf32")),
    ("streams", re.compile(r"cudaStreamCreate")),
    ("CUDA graphs", re.compile(r"cudaGraph\w+|cudaStreamBeginCapture")),
    ("static in C++", re.compile(r"^\s+static\s+(?!inline|constexpr|const |__)[^(){};]*[;=]", re.M)),
    ("persisting L2", re.compile(r"cudaLimitPersistingL2|accessPolicyWindow")),
    ("process", re.compile(r"\b(?:ptrace|fork|dlopen|dlsym|system|popen|kill|getppid|process_vm_\w+)\s*\(")),
)  # fmt: skip
_LOOKS_LIKE_SOURCE = re.compile(r"[;{}]")
_PROC = re.compile(r"^/proc/|^/dev/shm|/proc/self|/proc/\{|/proc/%")
_VALUE_METHODS = ("item", "tolist", "all", "any", "max", "min", "sum", "equal", "allclose")

Find = Callable[[str, ast.AST], None]


def find(program: Program, reach: Reach | None) -> dict[str, list[int]]:
    """Construct -> lines, sorted. ``reach``: what forward runs; without it only what does not depend on it."""
    found: dict[str, set[int]] = {}

    def note(name: str, node: ast.AST) -> None:
        found.setdefault(name, set()).add(getattr(node, "lineno", 0))

    for node in program.parents:
        _by_name(program, node, note)
        if isinstance(node, ast.Constant):
            _constant(node, note)
        elif isinstance(node, ast.List | ast.Tuple):
            numbers = sum(isinstance(item, ast.Constant | ast.UnaryOp) for item in node.elts)
            if numbers > LARGE_LITERAL_NUMBERS:
                note("large literal", node)
        elif isinstance(node, ast.Assign | ast.AugAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                _assignment(program, target, note)
        elif isinstance(node, ast.ExceptHandler) and all(
            isinstance(line, ast.Pass | ast.Continue) for line in node.body
        ):
            note("silent except", node)
        elif isinstance(node, ast.Call):
            _call(program, node, note)
        elif isinstance(node, ast.ClassDef) and any(program.dotted(base) == "torch.Tensor" for base in node.bases):
            note("tensor subclass", node)
    for node in reach.run_nodes if reach is not None else ():
        _running(program, node, note)
    return {name: sorted(lines) for name, lines in sorted(found.items())}


def _by_name(program: Program, node: ast.AST, note: Find) -> None:
    if isinstance(node, ast.Import | ast.ImportFrom):
        module = node.module if isinstance(node, ast.ImportFrom) else None
        for alias in node.names:
            _path(f"{module}.{alias.name}" if module else alias.name, node, note)
    elif isinstance(node, ast.Attribute):
        if not isinstance(program.parents.get(node), ast.Attribute):
            path = program.dotted(node)
            if path is not None:
                _path(path, node, note)
        if node.attr in _BY_ATTRIBUTE:
            note(_BY_ATTRIBUTE[node.attr], node)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        above = program.parents.get(node)
        if node.id in _BY_NAME and isinstance(above, ast.Call) and above.func is node:
            note(_BY_NAME[node.id], node)
        if node.id in program.imports and not isinstance(above, ast.Attribute):
            _path(program.imports[node.id], node, note)


def _path(path: str, node: ast.AST, note: Find) -> None:
    for name, pattern in _PATHS:
        if pattern.match(path):
            note(name, node)
            return


def _constant(node: ast.Constant, note: Find) -> None:
    if isinstance(node.value, bytes) and len(node.value) > LARGE_LITERAL_CHARACTERS:
        note("large literal", node)
    if not isinstance(node.value, str):
        return
    if _PROC.search(node.value):
        note("/proc", node)
    if not _LOOKS_LIKE_SOURCE.search(node.value):
        if len(node.value) > LARGE_LITERAL_CHARACTERS and len(node.value.split()) < len(node.value) / 64:
            note("large literal", node)
        return
    for name, pattern in _IN_CPP:
        for match in pattern.finditer(node.value):
            line = ast.Pass(lineno=node.lineno + node.value.count("\n", 0, match.start()))
            note(name, line)


def _assignment(program: Program, target: ast.expr, note: Find) -> None:
    if isinstance(target, ast.Attribute):
        path = program.dotted(target)
        if path is not None and path.startswith("torch.backends."):
            note("backend flags", target)
        elif path is not None:
            note("monkeypatch", target)
    elif isinstance(target, ast.Subscript) and (program.dotted(target.value) or "").startswith(("sys.", "os.")):
        note("monkeypatch", target)


def _call(program: Program, node: ast.Call, note: Find) -> None:
    name = node.func.id if isinstance(node.func, ast.Name) else None
    if name in ("setattr", "delattr") and node.args and program.dotted(node.args[0]) is not None:
        note("monkeypatch", node)
    attribute = node.func.attr if isinstance(node.func, ast.Attribute) else None
    if attribute == "data_ptr" or (name == "id" and node.args):
        if _is_key(program, node):
            note("pointer as key", node)
    if any(keyword.arg in ("allow_tf32", "input_precision") for keyword in node.keywords):
        note("TF32", node)


def _is_key(program: Program, node: ast.AST) -> bool:
    """Whether a value becomes (part of) a key: in a subscript, a comparison, ``.get()``, or a name that is used so."""
    below, above = node, program.parents.get(node)
    while isinstance(above, ast.Tuple | ast.FormattedValue | ast.JoinedStr | ast.GeneratorExp | ast.List) or (
        isinstance(above, ast.Call) and isinstance(above.func, ast.Name) and above.func.id in ("str", "hash", "tuple")
    ):
        below, above = above, program.parents.get(above)
    if isinstance(above, ast.Subscript):
        return above.slice is below
    if isinstance(above, ast.Compare | ast.Dict):
        return True
    if isinstance(above, ast.Call) and isinstance(above.func, ast.Attribute):
        return above.func.attr in ("get", "setdefault", "pop", "add")
    if isinstance(above, ast.Assign):
        names = {target.id for target in above.targets if isinstance(target, ast.Name)}
        kept = any(isinstance(target, ast.Attribute) for target in above.targets)
        return kept or any(
            isinstance(use, ast.Name) and use.id in names and isinstance(use.ctx, ast.Load) and _is_key(program, use)
            for use in program.parents
        )
    return False


def _running(program: Program, function: ast.AST, note: Find) -> None:
    """What only matters in code that forward runs."""
    for node in ast.walk(function):
        if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
            if any(_reads_a_value(program, part) for part in ast.walk(node.test)):
                note("branch on values", node)
        elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            root = node.value
            while isinstance(root, ast.Attribute | ast.Subscript):
                root = root.value
            if isinstance(root, ast.Name) and root.id == "self" and getattr(function, "name", "") != "__init__":
                note("state kept between calls", node)
            elif isinstance(node, ast.Subscript) and isinstance(root, ast.Name) and root.id in program.values:
                note("state kept between calls", node)
        elif isinstance(node, ast.Global):
            note("state kept between calls", node)


def _reads_a_value(program: Program, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    path = program.dotted(node.func)
    if path is not None:
        return path in ("torch.equal", "torch.allclose", "torch.all", "torch.any", "torch.is_nonzero")
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in _VALUE_METHODS:
        return False
    return not isinstance(node.func.value, ast.Name) or node.func.value.id not in program.imports


def lines_text(found: dict[str, list[int]]) -> Iterator[str]:
    """``narrow cast (12, 40)``: each construct with its first lines."""
    for name, lines in found.items():
        more = ", ..." if len(lines) > 5 else ""
        yield f"{name} ({', '.join(map(str, lines[:5]))}{more})"
