"""Clusters: one contract for every kind, an example of a kind of one's own, and a YARN made of files."""
