"""The paper's tables, figures and findings, built from kernel tables, audits and the leaderboard alone.

``build.py`` says what there is, ``topics/`` holds one module per subject, the rest is what they share. ``snakemake
paper`` builds it; docs/paper.md describes it.
"""
