"""The comparison of two versions on the same batches: figures with their limits, and rows."""
