"""What the operators tell OpenLineage. Only ``facet.py`` needs its packages, and is imported once they are there."""
