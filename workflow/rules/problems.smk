"""
This part of the workflow audits each problem once: what its reference gives on every input distribution.

REQUIRED INPUTS:

    problem   = problems/{suite}/{problem}.py

OUTPUTS:

    record    = results/problems/{suite}/{problem}.json

The audit decides which distributions apply, finds degenerate and non-discriminating problems, and tells the later
stages the shapes of inputs and outputs. A problem that cannot be used (no get_inputs, a syntax error) gets a record
that says so, and its candidates are skipped. It runs in fp32, also where all generators use bf16.
"""


rule audit_problem:
    input:
        problem="problems/{suite}/{problem}.py",
    output:
        record="results/problems/{suite}/{problem}.json",
    log:
        "logs/problems/{suite}/{problem}.log",
    benchmark:
        "benchmarks/out/problems/{suite}/{problem}.tsv"
    resources:
        gpu=gpus(),
        mem_mb=growing(8000),
        runtime=runtime_min("audit-problem"),
        timeout_s=timeout_s("audit-problem"),
    params:
        code=code("audit-problem"),
        sources=problem_sha256,
        options=f"--device {DEVICE} --dtype fp32",
    shell:
        "kbverified audit-problem --problem {input.problem} --out {output.record}"
        " {params.options} --timeout-s {resources.timeout_s} > {log} 2>&1"
