"""Rows of two versions compared in Spark. `compare_rows` (rows.py) is the door."""
