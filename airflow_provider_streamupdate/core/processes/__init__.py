"""Processes of this machine, identified reliably, and their signs of life."""
