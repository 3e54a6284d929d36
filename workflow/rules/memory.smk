"""
This part of the workflow measures the peak memory of one forward of the candidate and of the reference.

REQUIRED INPUTS:

    candidate = generations/{generator}/{suite}/{problem}/{sample}.py
    problem   = problems/{suite}/{problem}.py
    audit     = results/problems/{suite}/{problem}.json
    compiled  = results/compile/{generator}/{suite}/{problem}/{sample}.json
    gate      = results/hidden-gate/{generator}/{suite}/{problem}/{sample}.json

OUTPUTS:

    record    = results/memory/{generator}/{suite}/{problem}/{sample}.json
"""


rule memory:
    input:
        candidate="generations/{generator}/{suite}/{problem}/{sample}.py",
        problem="problems/{suite}/{problem}.py",
        audit="results/problems/{suite}/{problem}.json",
        compiled="results/compile/{generator}/{suite}/{problem}/{sample}.json",
        gate="results/hidden-gate/{generator}/{suite}/{problem}/{sample}.json",
    output:
        record="results/memory/{generator}/{suite}/{problem}/{sample}.json",
    log:
        "logs/memory/{generator}/{suite}/{problem}/{sample}.log",
    benchmark:
        "benchmarks/out/memory/{generator}/{suite}/{problem}/{sample}.tsv"
    priority: 30
    resources:
        gpu=gpus(),
        mem_mb=growing(8000),
        runtime=runtime_min("memory"),
        timeout_s=timeout_s("memory"),
    params:
        code=code("memory"),
        sources=source_sha256,
        options=options("memory"),
    shell:
        "kbverified stage memory --candidate {input.candidate} --problem {input.problem} --audit {input.audit}"
        " --compiled {input.compiled} --gate {input.gate} --out {output.record}"
        " {params.options} --timeout-s {resources.timeout_s} > {log} 2>&1"
