"""Update running PySpark Structured Streaming applications without losing their state.

Importing this package imports neither Airflow nor Spark; see the sub-packages:

- ``streaming``  runs inside the Spark driver (the app author's API and the agent)
- ``state``      snapshots, plans, compatibility, restore, registry (pure Python, storage through fsspec)
- ``control``    launches drivers and carries out updates; the command line and the Airflow side rest on it
"""

__version__ = "0.1.0"
