"""Parts of the demo: the flights and their replay, the oracles, the Airflow it starts."""
