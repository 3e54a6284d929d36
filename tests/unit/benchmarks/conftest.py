"""The benchmarks are no part of the installed package: they are run from, and imported from, the project folder."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[3]), str(HERE.parents[1])]  # record_factory lies in the latter
