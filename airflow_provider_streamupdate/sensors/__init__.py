"""The Airflow sensors: wait for health, wait for a snapshot."""
