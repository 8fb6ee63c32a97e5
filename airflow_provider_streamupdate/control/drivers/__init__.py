"""Drivers: the processes of spark-submit that run an app. `Drivers` (drivers.py) looks after those of one app: their
state, start and end; `launcher.py` builds the command, `process.py` and `clusters/` run it, `runtime.py` packs what
travels with it, `driver_log.py` reads what it wrote."""
