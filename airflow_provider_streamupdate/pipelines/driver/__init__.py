"""The driver of a Spark Declarative Pipeline: Spark runs it; before that, the state of its flows is carried over to the
code that runs now."""
