"""A Spark Declarative Pipeline's checkpoints, as files: which ones are in use, and which code wrote them."""
