"""The agent of a driver. One comes in by `lifecycle.Agent`, which runs a deployment from its claim to its final state
and needs no Spark. `context` is what its parts share: `standing_by`, `serving`, `obeying`, `hand_over`. `engine` is the
interface to what runs the queries; `spark_engine` is the one for Spark, over queries, rebuilding, standby, followers
and renumbering.
"""
