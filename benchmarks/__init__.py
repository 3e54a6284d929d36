"""What evaluating costs, measured by hand. Run from the project folder: python -m benchmarks.NAME."""
