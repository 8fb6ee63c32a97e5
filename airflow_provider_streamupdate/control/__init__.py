"""Launching drivers and carrying out updates, without Airflow; the command line and the hook rest on it."""
