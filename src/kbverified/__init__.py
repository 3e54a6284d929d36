"""KernelBench-Verified: problems and generators in, verified, timed and explained results out."""

__version__ = "0.1.0"
