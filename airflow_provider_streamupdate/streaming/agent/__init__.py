"""The agent of a driver. `lifecycle.Agent` runs a deployment from its claim to its final state, without Spark.

`context` is what its parts share: `serving`, `command_execution`, `hand_over`, and the `roles` of a driver that waits.
"""
