"""Queries as Spark runs them: their threads (queries.py), a batch planned without running it (dry_runs.py), what a
writer was told, and the state stores that Spark's operators write."""
