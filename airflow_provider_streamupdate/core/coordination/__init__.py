"""Coordination of processes that share a root: the app's lease, commands to a driver, the hand-over between two
drivers."""
