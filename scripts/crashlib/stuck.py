"""What had to happen did not."""


class Stuck(Exception):
    """Says what was waited for, and what there is instead."""
