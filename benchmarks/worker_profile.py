"""Where a worker's time goes during the gate: a renamed reference that profiles the process that it runs in.

    python -m benchmarks.worker_profile problems/bundled/level1_1.py > candidate.py

Every launch from the eighth on prints the profile since the source was loaded: the record of a gate that this candidate
went through ends with the last one (``output_tail``). What a law loads for the first time is in it, as it is for every
candidate.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.references import renamed

_PROBE = """

import cProfile as _cProfile
import io as _io
import pstats as _pstats

_profile = _cProfile.Profile()
_forward, _launches = ModelNew.forward, 0


def _profiled(self, *arguments):
    global _launches
    _launches += 1
    if _launches >= 8:
        _profile.disable()
        _text = _io.StringIO()
        _pstats.Stats(_profile, stream=_text).strip_dirs().sort_stats("tottime").print_stats(24)
        print(f"after {_launches} launches", _text.getvalue(), flush=True)
        _profile.enable()
    return _forward(self, *arguments)


ModelNew.forward = _profiled
_profile.enable()
"""


def main(argv: list[str] | None = None) -> int:
    """Exit code 0, or 2 where the problem cannot be read or renamed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problem", type=Path)
    path = parser.parse_args(argv).problem
    try:
        sys.stdout.write(renamed(path.read_text(encoding="utf-8")) + _PROBE)
    except (OSError, ValueError, SyntaxError) as error:
        print(f"worker_profile: {path}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
