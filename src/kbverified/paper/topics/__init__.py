"""One module per subject of the paper. Each has up to three functions, of a ``PaperInputs``:

``tables(inputs) -> list[Table]``, ``figures(inputs) -> dict[str, Figure]``, ``findings(inputs) -> list[Finding]``.
What they share is computed by a pure function of the module. build.TOPICS names every module and what it writes.
"""
