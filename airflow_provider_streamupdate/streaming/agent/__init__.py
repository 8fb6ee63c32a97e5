"""The agent of a driver. One comes in by `lifecycle.Agent`, which runs a deployment from its claim to its final state
and needs no Spark. What it asks of whatever runs the queries is in `engine`; `spark_engine` is the one for Spark, over
queries, rebuilding, standby and renumbering.
"""
