"""Tasks that are written as functions."""
