"""Snapshots of an app: taken, kept, restored from, and given up. `SnapshotStore` (snapshots.py) is the door."""
