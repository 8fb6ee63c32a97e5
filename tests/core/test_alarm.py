"""An event that is set by signals while its thread waits for it."""

from __future__ import annotations

import subprocess
import sys
import threading

from airflow_provider_streamupdate.core.processes.threads import Alarm

SIGNALS = 2000
# A handler sets the event again and again, in a thread that does nothing but wait for it.
CODE = f"""
import os, signal, subprocess, sys
from airflow_provider_streamupdate.core.processes.threads import Alarm
waited_for = Alarm()
signal.signal(signal.SIGUSR1, lambda *_: waited_for.set())
send = "import os, sys, time\\nfor _ in range({SIGNALS}): os.kill(int(sys.argv[1]), 10); time.sleep(0.0005)"
sender = subprocess.Popen([sys.executable, "-c", send, str(os.getpid())])
while sender.poll() is None:
    waited_for.wait(0.00001)
"""


def test_a_handler_may_set_it_at_any_moment() -> None:
    subprocess.run([sys.executable, "-c", CODE], check=True, timeout=120)


def test_it_wakes_who_waits_and_stays_set() -> None:
    alarm = Alarm()
    assert not alarm.wait(0.01) and not alarm.is_set()
    waiting = threading.Thread(target=alarm.wait)
    waiting.start()
    alarm.set()
    waiting.join(60)
    assert not waiting.is_alive() and alarm.wait() and alarm.is_set()
