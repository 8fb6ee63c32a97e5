"""From the queries an author wrote to the app's plan: `plan_app` (planner.py). What a stage means is traced in
lineage.py, and written by expression.py and definition.py.
"""
