"""The state library: no Airflow, no Spark; storage through fsspec only."""
