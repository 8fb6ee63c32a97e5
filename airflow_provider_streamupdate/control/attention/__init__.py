"""What needs a person, why, and which command helps: assess() reads, need.py judges."""
