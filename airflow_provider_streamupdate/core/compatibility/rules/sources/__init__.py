"""The rules for sources and their options."""
