"""Whether a new version does well.

verify.py   wait until it is healthy, or has failed
health.py   ... by itself: it runs, commits and has no error
slo.py      ... beside the hours before (the SLO gate), with what it writes (output/)
"""
