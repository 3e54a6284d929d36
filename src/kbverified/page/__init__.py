"""The leaderboard as one HTML page that works from disk: ``results/leaderboard.html``.

``build.write`` makes it from what a run left behind. What the page shows is decided here, in Python (rule.py,
candidates.py, details.py); how it looks is in ``assets/``. docs/leaderboard-page.md is for its readers.
"""
