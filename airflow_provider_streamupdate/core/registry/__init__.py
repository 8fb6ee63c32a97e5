"""Apps and deployments as files under one root. `Registry` and `AppRegistry` (registry.py) are the door; the other
modules are what is kept there.
"""
