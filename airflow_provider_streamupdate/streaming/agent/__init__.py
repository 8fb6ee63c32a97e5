"""The agent of a driver. One comes in by `lifecycle.Agent`, which runs a deployment from its claim to its final state
and needs no Spark. `context` is what its parts share: `serving`, `obeying`, `hand_over`, and the `roles` of a driver
that stands by.
"""
