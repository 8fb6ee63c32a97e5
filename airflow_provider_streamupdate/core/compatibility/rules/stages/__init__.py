"""The rules for stages and their stores, a kind of part a file; `stage.py` has the table of all."""
