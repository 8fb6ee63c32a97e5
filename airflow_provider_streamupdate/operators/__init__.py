"""The Airflow operators."""
