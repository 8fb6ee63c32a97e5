"""Plans: what an app version's queries are made of, as far as saved state depends on it (`plan.py`), and the words that
plans are written in.
"""
