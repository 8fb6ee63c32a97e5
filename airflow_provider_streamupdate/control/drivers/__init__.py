"""Drivers: the processes of spark-submit that run an app.

`Drivers` (drivers.py) manages those of one app: state, start and end. `launcher.py` builds the command, `process.py`
and `clusters/` run it, `runtime.py` packs the code that travels with it, `driver_log.py` reads its output.
"""
