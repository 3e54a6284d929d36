"""``python -m kbverified``: the same as the ``kbverified`` command."""

from kbverified.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
