"""How many digits a record keeps. A room of its own: judges need it, and no judge may depend on metrics.py, whose
every edit would otherwise time everything again."""

from kbverified.protocol import TIMING_SIGNIFICANT_DIGITS


def significant(value: float) -> float:
    """The value to TIMING_SIGNIFICANT_DIGITS digits, as records keep times and what is derived from them in a stage."""
    return float(f"{value:.{TIMING_SIGNIFICANT_DIGITS}g}")
