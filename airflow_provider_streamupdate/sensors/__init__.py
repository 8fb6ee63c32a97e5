"""Sensors: waiting for health and for snapshots."""
