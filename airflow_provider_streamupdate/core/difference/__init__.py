"""What two versions made of the same batches: their figures, the limits they are held to, and their rows."""
