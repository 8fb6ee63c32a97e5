"""The core: pure Python without Airflow and Spark, which travels to the driver. A room a folder, which imports from
those before it only: the modules here (errors, names, times, JSON), storage, processes, plan, checkpoint,
compatibility, registry, snapshots, coordination.
"""
