"""Catalyst's trees as data, and the marks in their texts. Pure Python, without Spark."""
