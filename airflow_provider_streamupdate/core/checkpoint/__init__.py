"""A Spark checkpoint's files, read and written without Spark. `Checkpoint` (checkpoint.py) is the door; it exports
what a snapshot is made of (snapshot.py).
"""
