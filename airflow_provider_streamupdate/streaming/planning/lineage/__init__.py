"""Where columns, rows and the rows of tables come from, down to the sources; the door is `lineage.py`."""
