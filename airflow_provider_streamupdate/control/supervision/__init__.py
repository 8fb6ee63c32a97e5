"""Supervision: starting lost and failed drivers again, with backoff, until an app is in a crash loop.

`supervise` (supervise.py) is the door. decision.py says what is done about an app, and when, as a pure function;
watch.py which of several supervisors does it.
"""
