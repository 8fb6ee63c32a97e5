"""The page "Streaming apps" in Airflow's UI: the plugin, its API, and the front end (www)."""
