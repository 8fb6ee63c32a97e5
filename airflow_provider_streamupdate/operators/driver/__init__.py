"""A driver that an operator starts: lines.py writes its log into the task's; links.py leaves links to it behind."""
