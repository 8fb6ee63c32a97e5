"""The rows of two versions: recorded batch by batch, and compared in Spark."""
