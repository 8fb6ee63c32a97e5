"""What an expression means, as text that is the same whenever it computes the same; the door is `expression.py`."""
