"""
This part of the workflow builds every extension that a candidate asks for, without a GPU.

REQUIRED INPUTS:

    candidate = generations/{generator}/{suite}/{problem}/{sample}.py
    problem   = problems/{suite}/{problem}.py
    audit     = results/problems/{suite}/{problem}.json

OUTPUTS:

    record    = results/compile/{generator}/{suite}/{problem}/{sample}.json

What is built lies under the configured build root, content-addressed, and is no output: deleting it costs time only.
"""


rule compile:
    input:
        candidate="generations/{generator}/{suite}/{problem}/{sample}.py",
        problem="problems/{suite}/{problem}.py",
        audit="results/problems/{suite}/{problem}.json",
    output:
        record="results/compile/{generator}/{suite}/{problem}/{sample}.json",
    log:
        "logs/compile/{generator}/{suite}/{problem}/{sample}.log",
    benchmark:
        "benchmarks/out/compile/{generator}/{suite}/{problem}/{sample}.tsv"
    resources:
        mem_mb=growing(4000),
        runtime=runtime_min("compile"),
        timeout_s=timeout_s("compile"),
        build_timeout_s=timeout_s("compile"),
    params:
        code=code("compile"),
        sources=source_sha256,
        options=options("compile"),
    shell:
        "kbverified stage compile --candidate {input.candidate} --problem {input.problem} --audit {input.audit}"
        " --out {output.record} {params.options} --timeout-s {resources.timeout_s} --build-timeout-s {resources.build_timeout_s} > {log} 2>&1"
