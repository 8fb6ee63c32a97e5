"""The agent of a driver. One comes in by `lifecycle.Agent`, which runs a deployment from its claim to its final state
and needs no Spark. `engine` is its interface to what runs the queries; `spark_engine` is the one for Spark, over
queries, rebuilding, standby and renumbering.
"""
