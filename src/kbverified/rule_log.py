"""What a script of the workflow says goes into its rule's log, and bad input ends it with a message there."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def rule_log(path: str) -> Iterator[None]:
    """Standard output and errors to ``path``. A ValueError is a message with file, field and value: exit code 1."""
    with (
        open(path, "w", encoding="utf-8") as log,
        contextlib.redirect_stdout(log),
        contextlib.redirect_stderr(log),
    ):
        try:
            yield
        except ValueError as error:
            print(error, file=log)
            sys.exit(1)
