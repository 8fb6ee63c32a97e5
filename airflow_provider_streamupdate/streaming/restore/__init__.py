"""Saved state under a new plan: `restore_app` (restorer.py), and what rewrites rows on the executors."""
