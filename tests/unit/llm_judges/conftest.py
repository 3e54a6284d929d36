"""record_factory.py serves this folder too, and hand_made.py of the paper's tests."""

import sys
from pathlib import Path

UNIT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(UNIT), str(UNIT / "paper")]
