"""The instructions of a function, as a list without what computes nothing (bytecode.py), and what is told from it."""
