"""Operators, one noun a file."""
