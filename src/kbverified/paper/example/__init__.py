"""A run that never took place: drawn from a seed, for trying out and testing what is made from records.

``truth.py`` draws what every candidate is, ``stages.py`` writes it as stage records, ``run.py`` aggregates them with
the code that aggregates every run. Its device is called synthetic, so that nobody takes a number of it for measured.

    python -m kbverified.paper.example --out FOLDER      tables of seven generators and two more, about 9,500 rows
"""
