"""A warm process that has torch imported and forks judges and workers, so that a stage does not import it thrice.

``client`` hands a command over, ``key`` says which evaluator may take it, ``server`` is the warm process, ``preload``
what it imports, ``judge`` what a forked judge does before it is the command. docs/evaluator.md tells the whole of it.
"""

from __future__ import annotations

import os

VARIABLE = "KBV_EVALUATOR"
"""``on`` or ``off``: the workflow sets it from the key ``evaluator`` of the configuration, unless it is set already."""


def wanted() -> bool:
    """Whether this process's commands are to run in an evaluator. Raises ValueError for a value that is none."""
    value = os.environ.get(VARIABLE) or "off"
    if value not in ("on", "off"):
        raise ValueError(f"{VARIABLE}={value!r} is neither on nor off")
    from kbverified.sandbox import forked

    return value == "on" and forked.source() is None  # a judge that was forked is in one already
