"""What importing a module of the app's does, told from its source: which statements only give values to names, which
are known to do nothing else, and what all others reach."""
