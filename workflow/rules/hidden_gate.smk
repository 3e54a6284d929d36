"""
This part of the workflow runs each candidate on the hidden input distributions and compares it with the reference.

REQUIRED INPUTS:

    candidate = generations/{generator}/{suite}/{problem}/{sample}.py
    problem   = problems/{suite}/{problem}.py
    audit     = results/problems/{suite}/{problem}.json
    compiled  = results/compile/{generator}/{suite}/{problem}/{sample}.json

OUTPUTS:

    record    = results/hidden-gate/{generator}/{suite}/{problem}/{sample}.json

The record holds critical tolerances and no verdict that depends on tau: tau is applied at aggregation, because
Snakemake has no early cutoff and a tolerance sweep must not rerun a stage.
"""


rule hidden_gate:
    input:
        candidate="generations/{generator}/{suite}/{problem}/{sample}.py",
        problem="problems/{suite}/{problem}.py",
        audit="results/problems/{suite}/{problem}.json",
        compiled="results/compile/{generator}/{suite}/{problem}/{sample}.json",
    output:
        record="results/hidden-gate/{generator}/{suite}/{problem}/{sample}.json",
    log:
        "logs/hidden-gate/{generator}/{suite}/{problem}/{sample}.log",
    benchmark:
        "benchmarks/out/hidden-gate/{generator}/{suite}/{problem}/{sample}.tsv"
    priority: 10
    resources:
        gpu=gpus(),
        mem_mb=growing(8000),
        runtime=runtime_min("hidden-gate"),
        timeout_s=timeout_s("hidden-gate"),
        build_timeout_s=timeout_s("compile"),
    params:
        code=code("hidden-gate"),
        sources=source_sha256,
        options=options("hidden-gate"),
    shell:
        "kbverified stage hidden-gate --candidate {input.candidate} --problem {input.problem} --audit {input.audit}"
        " --compiled {input.compiled} --out {output.record}"
        " {params.options} --timeout-s {resources.timeout_s} --build-timeout-s {resources.build_timeout_s} > {log} 2>&1"
