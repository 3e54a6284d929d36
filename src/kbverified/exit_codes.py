"""Exit codes of the ``kbverified`` command. 0: done; for a stage, a record was written, whatever the verdict."""

EXIT_INCOMPLETE = 1
"""``device-run`` only: some records of the shard are missing."""
EXIT_BAD_INPUT = 2
"""Nothing was done, and the same call would fail again: the message names what to mend."""
EXIT_INFRASTRUCTURE = 75
"""A fault of the machine, nothing was recorded: try again (EX_TEMPFAIL of sysexits.h)."""
