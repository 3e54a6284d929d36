"""Exit codes of the ``kbverified`` command. 0: done; for a stage, a record was written, whatever the verdict."""

EXIT_INCOMPLETE = 1
"""``device-run`` only: some records of the shard are missing."""
EXIT_FAILED = 1
"""``check`` only: the candidate has a verdict, and it is no pass. ``doctor`` only: something here does not work."""
EXIT_BAD_INPUT = 2
"""Nothing was done, and the same call would fail again: the message names what to mend."""
EXIT_MACHINE = 3
"""``check`` and ``doctor``: a fault of the machine, no verdict. A small number, for people; ``check`` is no stage."""
EXIT_INFRASTRUCTURE = 75
"""A fault of the machine, nothing was recorded: try again (EX_TEMPFAIL of sysexits.h)."""
EXIT_INTERRUPTED = 130
"""``check`` only: ended by Ctrl-C or a signal (128 + SIGINT, as shells have it)."""
