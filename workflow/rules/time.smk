"""
This part of the workflow times each candidate beside its baseline, both in the same precision mode.

REQUIRED INPUTS:

    candidate = generations/{generator}/{suite}/{problem}/{sample}.py
    problem   = problems/{suite}/{problem}.py
    audit     = results/problems/{suite}/{problem}.json
    compiled  = results/compile/{generator}/{suite}/{problem}/{sample}.json
    gate      = results/hidden-gate/{generator}/{suite}/{problem}/{sample}.json

OUTPUTS:

    record    = results/time-{mode}/{generator}/{suite}/{problem}/{sample}.json     mode is fp32 or tf32; ieee or compile where
                the configuration's baselines name them, or where such a record is asked for by its path

Nothing else may run on what is being timed. On a GPU the job leases its device; on a CPU it claims every core.
"""


rule time:
    input:
        candidate="generations/{generator}/{suite}/{problem}/{sample}.py",
        problem="problems/{suite}/{problem}.py",
        audit="results/problems/{suite}/{problem}.json",
        compiled="results/compile/{generator}/{suite}/{problem}/{sample}.json",
        gate="results/hidden-gate/{generator}/{suite}/{problem}/{sample}.json",
    output:
        record="results/time-{mode}/{generator}/{suite}/{problem}/{sample}.json",
    log:
        "logs/time-{mode}/{generator}/{suite}/{problem}/{sample}.log",
    benchmark:
        "benchmarks/out/time-{mode}/{generator}/{suite}/{problem}/{sample}.tsv"
    wildcard_constraints:
        mode="|".join(stage.removeprefix("time-") for stage in keys.TIME_STAGES),
    priority: 20
    threads: timing_threads()
    resources:
        gpu=gpus(),
        mem_mb=growing(8000),
        runtime=lambda wildcards, attempt: attempt * minutes(f"time-{wildcards.mode}"),
        timeout_s=lambda wildcards: timeout_s(f"time-{wildcards.mode}"),
        build_timeout_s=timeout_s("compile"),
    params:
        code=lambda wildcards: code(f"time-{wildcards.mode}"),
        sources=source_sha256,
        options=options("time"),
    shell:
        "kbverified stage time-{wildcards.mode}"
        " --candidate {input.candidate} --problem {input.problem} --audit {input.audit}"
        " --compiled {input.compiled} --gate {input.gate} --out {output.record}"
        " {params.options} --timeout-s {resources.timeout_s} --build-timeout-s {resources.build_timeout_s} > {log} 2>&1"
