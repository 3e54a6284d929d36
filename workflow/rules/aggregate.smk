"""
This part of the workflow turns records into tables: first per generator, then all of them into the leaderboard.

REQUIRED INPUTS:

    records   = results/{stage}/{generator}/{suite}/{problem}/{sample}.json     of every stage
    audits    = results/problems/{suite}/{problem}.json                         of every selected problem
    ceilings  = results/ceilings/{device}.json
    labels    = results/llm-judges/labels.json                              where LLM judges are configured

OUTPUTS:

    kernels     = results/kernels/{generator}.parquet       one row per candidate
    leaderboard = results/leaderboard.json, .csv, .md

Everything that only interprets records happens here, tau above all: changing it reruns these two rules, the
page and the paper, and no stage. These are scripts, since they run once per generator and hand over thousands of paths.
What is marked with report() is in Snakemake's own report (snakemake --report report.html); records are not, they are
tens of thousands.
"""


rule aggregate:
    input:
        records=records_of,
        audits=lambda wildcards: audits(),
        metadata=lambda wildcards: metadata(wildcards.generator),
        ceilings=CEILINGS,
    output:
        kernels=report(
            "results/kernels/{generator}.parquet",
            caption="../report/kernels.rst",
            category="Candidates",
            labels={"generator": "{generator}", "format": "Parquet"},
        ),
    log:
        "logs/aggregate/{generator}.log",
    benchmark:
        "benchmarks/out/aggregate/{generator}.tsv"
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        code=code("aggregate"),
        settings=AGGREGATION,
    script:
        "../scripts/aggregate.py"


rule leaderboard:
    input:
        kernels=lambda wildcards: [f"results/kernels/{name}.parquet" for name in selected().candidates],
        audits=lambda wildcards: audits(),
        labels=lambda wildcards: LLM_LABELS,
    output:
        json=report(
            "results/leaderboard.json",
            caption="../report/leaderboard.rst",
            category="Leaderboard",
            labels={"format": "JSON", "what": "everything"},
        ),
        csv=report(
            "results/leaderboard.csv",
            caption="../report/leaderboard.rst",
            category="Leaderboard",
            labels={"format": "CSV", "what": "a line an entry"},
        ),
        markdown=report(
            "results/leaderboard.md",
            caption="../report/leaderboard.rst",
            category="Leaderboard",
            labels={"format": "Markdown", "what": "to read"},
        ),
    log:
        "logs/leaderboard.log",
    benchmark:
        "benchmarks/out/leaderboard.tsv"
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        code=code("leaderboard"),
        settings=AGGREGATION,
    script:
        "../scripts/leaderboard.py"
