"""
This part of the workflow measures what this kind of device can do at best: the roofline's ceilings.

REQUIRED INPUTS: none

OUTPUTS:

    record = results/ceilings/{device}.json     device is cuda or cpu, whichever the run uses

Once per kind of device and not per candidate: some two seconds on a device that nothing else uses meanwhile. Tables
read it, stages do not, so that measuring again reruns no stage. Delete it after a change of device, driver or torch:
until then the floors of new records are null and say so.
"""

CEILINGS = f"results/ceilings/{DEVICE}.json"


rule ceilings:
    output:
        record=CEILINGS,
    log:
        f"logs/ceilings/{DEVICE}.log",
    benchmark:
        f"benchmarks/out/ceilings/{DEVICE}.tsv"
    priority: 40
    threads: timing_threads()
    resources:
        gpu=gpus(),
        mem_mb=growing(8000),
        runtime=growing(10),
    params:
        code=code("ceilings"),
        options=f"--device {DEVICE}",
    shell:
        "kbverified ceilings --out {output.record} {params.options} > {log} 2>&1"
