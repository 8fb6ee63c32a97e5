"""Can a new version live with saved state? `compare` (compatibility.py) judges two plans by the table of `rules/`, and
`migration.py` says how state is rewritten; the verdicts are a report (report.py).
"""
