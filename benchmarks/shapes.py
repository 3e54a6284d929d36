"""Audit records for the compile stage alone, made without a device: what is asked of a problem is its shapes.

    python -m benchmarks.shapes --problems FOLDER --out FOLDER level1_19 level2_12 ...

A real audit runs the reference on a GPU. The compile stage only reads the constructor's arguments and the inputs'
shapes; those come from fake tensors here, in milliseconds. Such a record says so in its detail, and is good for
nothing else. Prints the problems for which none could be made, and why.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from kbverified import codec, layout, problems
from kbverified.records.files import write
from kbverified.records.problem import ProblemRecord, TensorSpec
from kbverified.stages import Clock, file_sha256


def shape_record(path: Path) -> ProblemRecord:
    """The record of one problem file. Raises ProblemError, CodecError, or whatever the problem's own code raises."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    clock = Clock()
    problem = problems.load(path)
    leftover: list = []
    init_inputs = codec.encode(list(problem.get_init_inputs()), leftover)
    if leftover:
        raise codec.CodecError("get_init_inputs() returns tensors")
    with FakeTensorMode(allow_non_fake_inputs=True):
        tensors: list = []
        encoded = codec.encode(list(problem.get_inputs()), tensors)
    inputs: list[TensorSpec | None] = [
        layout.spec_of(tensors[item["tensor"]]) if isinstance(item, dict) and "tensor" in item else None
        for item in encoded
    ]
    return ProblemRecord(
        provenance=clock.provenance("audit-problem", file_sha256(path)),
        status="ok",
        name=path.stem,
        level=int(path.stem.partition("_")[0].removeprefix("level")),
        usable=True,
        detail="shapes alone, from fake tensors: for benchmarks of the compile stage",
        inputs=tuple(inputs),
        init_inputs=init_inputs,
    )


def main(argv: list[str] | None = None) -> int:
    """Exit code 0: every record was made; 1: some could not be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=Path, required=True, help="folder of level1_19.py and the like")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("names", nargs="+")
    arguments = parser.parse_args(argv)
    failed = 0
    for name in dict.fromkeys(arguments.names):
        try:
            record = shape_record(arguments.problems / f"{name}.py")
        except Exception as error:  # a problem's own code may raise anything; its candidates are then left out
            print(f"shapes: {name}: {type(error).__name__}: {error}")
            failed += 1
            continue
        write(arguments.out / f"{name}.json", record)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
