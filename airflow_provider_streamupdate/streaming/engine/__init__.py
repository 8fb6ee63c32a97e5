"""What runs an app's queries. `port` is the interface that the agent knows (QueryEngine, Session). `spark_engine` is
the one for Spark, over `queries` (that run), `followers` (that run another version's batches), `rebuilding` (with other
parameters), `renumbering` and `warm_up`.
"""
