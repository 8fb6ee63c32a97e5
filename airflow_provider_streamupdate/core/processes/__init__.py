"""Processes of this machine, told from each other for certain, and their signs of life."""
