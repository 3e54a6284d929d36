"""Does a source parse, and does it bind ModelNew? Run as a file of its own, in a process with limits.

Parsing hostile text is not free: 4 MiB of ``f'{a}{a}...'`` keep Python 3.11's parser busy for over five minutes, 4 MiB
of ``a\\n`` make 2.5 GB of syntax tree, and other releases have crashed on deep nesting. So no judge parses a candidate
itself; this process does, under limits on CPU seconds and memory. Standard library only: it starts in 20 ms.
"""

from __future__ import annotations

import json
import re
import resource
import symtable
import sys
import warnings

CPU_LIMIT_S = 20
MEMORY_LIMIT_BYTES = 2 << 30
_DETAIL_CHARACTERS = 300

# Ways to bind a name that no parser sees. Where one of them occurs, the import decides.
_DYNAMIC = re.compile(
    r"\b(exec|eval|globals|vars|setattr|__dict__|__getattr__|importlib|__import__)\b"
    r"|import[ \t]*\*|\bglobal\b.*\bModelNew\b"
)


def examine(text: str) -> tuple[str, str] | None:
    """Verdict (``syntax_error`` or ``no_model_new``) and detail; None: nothing to object to."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<candidate>", "exec", dont_inherit=True)
            table = symtable.symtable(text, "<candidate>", "exec")
    except SyntaxError as error:
        return "syntax_error", f"line {error.lineno}: {error.msg}"[:_DETAIL_CHARACTERS]
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return "syntax_error", f"cannot be parsed: {type(error).__name__}: {error}"[:_DETAIL_CHARACTERS]
    try:
        symbol = table.lookup("ModelNew")
        bound = symbol.is_assigned() or symbol.is_imported()
    except KeyError:
        bound = False
    if bound or _DYNAMIC.search(text):
        return None
    return "no_model_new", "nothing at module level is called ModelNew"


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    json.dump(examine(sys.stdin.buffer.read().decode("utf-8-sig")), sys.stdout)


if __name__ == "__main__":
    main()
