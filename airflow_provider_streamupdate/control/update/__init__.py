"""An update of a running app: what is asked for, its steps, its record and the way back.

The door is `engine.UpdateEngine`: the command line has it run all steps, a DAG's task runs one. How the new version
takes the old one's place is a strategy's (`strategies/`). An update works by operations on deployments, snapshots
and drivers; nothing below `control/` knows of updates.
"""
