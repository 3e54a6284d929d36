"""The trusted side of each stage: seeds, reference, comparison, clock. The only writer of records."""
