"""An update of a running app: its options, its steps, its record and its rollback.

The entry point is `engine.UpdateEngine`: the command line runs all steps with it, a task of a DAG runs one. A strategy
(`strategies/`) defines how the new version replaces the old one. An update is made of operations on deployments,
snapshots and drivers; these operations do not depend on updates.
"""
