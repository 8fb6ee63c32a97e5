"""What processes that share a root agree by: the app's lease, commands to a driver, the hand-over between two."""
