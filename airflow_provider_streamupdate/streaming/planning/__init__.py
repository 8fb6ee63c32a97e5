"""From the queries an author wrote to the app's plan: `plan_app` (planner.py). lineage.py traces what a stage means;
expression.py and definition.py write it.
"""
