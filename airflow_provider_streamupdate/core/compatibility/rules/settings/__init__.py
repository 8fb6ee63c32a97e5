"""The rules for settings (`setting.py`), over the table of those that are measured."""
