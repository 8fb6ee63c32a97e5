"""The names of other files in a checkpoint's file. Such a name is joined to a path, here or by Spark, so none may lead
elsewhere (names.check_path).

Sources: RocksDBCheckpointMetadata and RocksDBFileManager (a version's zip), OperatorStateMetadataV1/V2 of Spark 4.2 and
4.3; offset and commit logs are read by checkpoint.py and commit_log.py.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from typing import Any

from ..errors import CorruptError
from ..names import check_part, check_path
from ..serde import parse_json
from .commit_log import LINEAGE_BYTES, CommitEntry, read_lineage
from .offset_log import OffsetEntry

_ZIP = re.compile(r"state/.+\.zip")
_WITH_LINEAGE = re.compile(r"state/.+/\d+_[^/]+\.changelog")  # format v2
_OPERATOR = re.compile(r"state/\d+/_metadata/(metadata|v2/\d+)")
_SCHEMAS = "/_stateSchema/"


def names_files(path: str) -> bool:
    """Whether a file of a checkpoint names others."""
    logs = path.startswith(("offsets/", "commits/"))
    return logs or is_store_file(path) or _OPERATOR.fullmatch(path) is not None


def is_store_file(path: str) -> bool:
    """Whether that file is one of a state store."""
    return any(form.fullmatch(path) for form in (_ZIP, _WITH_LINEAGE))


def check_named_files(path: str, data: bytes, where: str) -> None:
    """Raise CorruptError when the file at `path` of a checkpoint names a file outside, or cannot be read."""
    if path.startswith("offsets/"):
        OffsetEntry.parse(data, where)
    elif path.startswith("commits/"):
        CommitEntry.parse(data, where)
    elif _ZIP.fullmatch(path):
        files_of_zip(data, where)
    elif _WITH_LINEAGE.fullmatch(path):
        read_lineage(data[:LINEAGE_BYTES], where)
    elif _OPERATOR.fullmatch(path):
        read_operator(data, where)


def files_of_zip(data: bytes, where: str) -> list[str]:
    """Return the SSTs and archived logs that a RocksDB version's zip names in its ``metadata`` entry. The names under
    which Spark unpacks them are checked as well."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.namelist()
            text = archive.read("metadata").decode()
        metadata = json.loads(text.split("\n", 1)[1])
        ssts = [(f["dfsSstFileName"], f["localFileName"]) for f in metadata.get("sstFiles", [])]
        logs = [(f["dfsLogFileName"], f["localFileName"]) for f in metadata.get("logFiles", [])]
    except (zipfile.BadZipFile, KeyError, IndexError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise CorruptError(f"{where} is not a RocksDB version file: {type(error).__name__}: {error}") from error
    if len(set(entries)) != len(entries):
        raise CorruptError(f"{where} is not a RocksDB version file: it holds an entry twice")
    for entry in entries:
        check_path(entry, f"an entry of {where}")
    for name in (name for pair in (*ssts, *logs) for name in pair):
        check_part(name, f"the metadata in {where}")
    return [f"SSTs/{name}" for name, _ in ssts] + [f"logs/{name}" for name, _ in logs]


def read_operator(data: bytes, where: str) -> tuple[str, dict[str, Any]]:
    """The version and the JSON of Spark's description of an operator."""
    try:
        version, _, text = data.decode().partition("\n")
        described = parse_json(text.encode(), where)
        stores = [
            (store["storeName"], store.get("stateSchemaFilePaths") or ()) for store in described["stateStoreInfo"]
        ]
        int(described["operatorInfo"]["operatorId"])
        str(described["operatorInfo"]["operatorName"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptError(f"{where} is not an operator's metadata: {type(error).__name__}: {error}") from error
    for name, paths in stores:
        check_part(name, where)
        for path in paths:
            schema_file(path, where)
    return version, described


def schema_file(path: object, where: str) -> str:
    """The part below ``_stateSchema`` of a state schema file's absolute path."""
    if not isinstance(path, str) or _SCHEMAS not in path:
        raise CorruptError(f"{where} names the state schema file {path!r}, which is not in a folder _stateSchema")
    return check_path(path.rpartition(_SCHEMAS)[2], where)
