"""
This part of the workflow makes the leaderboard a page to explore: one HTML file that works from disk.

REQUIRED INPUTS:

    kernels     = results/kernels/{generator}.parquet    of every selected generator
    leaderboard = results/leaderboard.json
    audits      = results/problems/{suite}/{problem}.json

Records, sources and metadata are read besides, from their places. They are no inputs: whatever changes one of them
changes its generator's table, or nothing that is judged, and naming 44,000 files a second time would cost planning.

OUTPUTS:

    page = results/leaderboard.html
"""


rule page:
    input:
        kernels=lambda wildcards: [f"results/kernels/{name}.parquet" for name in selected().candidates],
        audits=lambda wildcards: audits(),
        leaderboard="results/leaderboard.json",
    output:
        page=PAGE,
    log:
        "logs/page.log",
    benchmark:
        "benchmarks/out/page.tsv"
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        code=code("page"),
        settings=AGGREGATION,
    script:
        "../scripts/page.py"
