"""The datasets that an app reads and writes, by OpenLineage's names. Pure functions.

A name never holds a secret: user and password of an address are left out, and so are values behind ``?name=``,
``#name=`` and ``;name=``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

import attrs

from ..core import secret_names
from ..core.address import HIDDEN, without_credentials
from ..core.compatibility.rules.sources.source_options import DELTA, FILES, ICEBERG, KAFKA, short_format
from ..core.plan.plan import AppPlan, QueryPlan
from ..core.plan.spark_types import ddl

_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(//(?P<authority>[^/]*))?(?P<path>.*)", re.DOTALL)
_ASKED = re.compile(r"([?#;]|%3f)[^/=]+(?P<value>=.*)?", re.DOTALL | re.I)  # a lone ? is a sign of a pattern of paths
# Schemes of object stores, as OpenLineage's integrations write them; a name there begins with no slash.
_BUCKETS = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs"}
_CONTAINERS = {"abfs": "abfss", "abfss": "abfss", "wasb": "wasbs", "wasbs": "wasbs"}  # container@account
_SERVER = re.compile(r"(\w+://)?(?P<host>\[[^\]]+\]|[^:/]+):(?P<port>\d+)")
_PLACES_OF_FILES = (*FILES, DELTA.names[0])
_PATH = "path"


@attrs.frozen
class Named:
    """A dataset."""

    namespace: str
    name: str
    fields: tuple[tuple[str, str], ...] = attrs.field(default=(), eq=False)  # columns and types, where known


@attrs.frozen(kw_only=True)
class Flow:
    """The datasets that an app reads and writes."""

    inputs: tuple[Named, ...] = ()
    outputs: tuple[Named, ...] = ()
    unnamed: tuple[str, ...] = ()  # sources and sinks without a name in OpenLineage: ``query/source (format)``


def flow_of(plan: AppPlan) -> Flow:
    """Return the sources and sinks of a plan, each once."""
    inputs: dict[Named, None] = {}
    outputs: dict[Named, None] = {}
    unnamed = []

    def note(known: dict[Named, None], found: Iterable[Named], columns: tuple[tuple[str, str], ...]) -> bool:
        new = [attrs.evolve(each, fields=columns) for each in found]
        known |= dict.fromkeys(new)
        return bool(new)

    for query in plan.queries:
        for source in query.sources:
            order = source.order or tuple(source.columns)
            columns = tuple((name, ddl(source.columns[name])) for name in order if name in source.columns)
            found = _of_source(query, source.format, source.location, source.options)
            if not note(inputs, found, columns):
                unnamed.append(f"{query.name}/{source.name} ({source.format})")
        columns = tuple((name, ddl(kind)) for name, kind in query.sink.columns or ())
        if not note(outputs, _of_sink(query), columns):
            unnamed.append(f"{query.name} ({query.sink.format})")
    return Flow(inputs=tuple(inputs), outputs=tuple(outputs), unnamed=tuple(unnamed))


def at(uri: str | None) -> Named | None:
    """Return the dataset of a path or URI (a folder of files, or a table in one); None where it has no name."""
    if not uri or uri == secret_names.HIDDEN:
        return None
    uri = without_credentials(uri)
    found = _URI.fullmatch(uri)
    if found is None and not uri.startswith("/"):
        return None  # below a folder that is not known
    scheme = found["scheme"].lower() if found else "file"
    authority = (found["authority"] if found else None) or ""
    path = found["path"] if found else uri
    path = _ASKED.sub(lambda found: "" if found["value"] else found[0], re.sub("/+", "/", path))
    path = path.rstrip("/") or "/"
    user, _, host = authority.rpartition("@")
    if scheme in _CONTAINERS and user not in ("", HIDDEN) and ":" not in user:
        return Named(f"{_CONTAINERS[scheme]}://{user}@{host}", path.lstrip("/") or "/")
    if scheme in _BUCKETS:
        return Named(f"{_BUCKETS[scheme]}://{host}", path.lstrip("/") or "/") if host and ":" not in host else None
    if not path.startswith("/"):
        return None
    return Named(f"{scheme}://{host}" if host else scheme, path)


def _of_source(query: QueryPlan, form: str, location: str | None, options: dict[str, str]) -> Iterator[Named]:
    kind = short_format(form)
    if kind == KAFKA.names[0]:
        yield from _topics(options.get("kafka.bootstrap.servers"), _read_topics(options))
    elif kind in _PLACES_OF_FILES:
        yield from _list_of(at(location))
    elif kind == ICEBERG.names[0]:
        yield from _list_of(_iceberg(query, location))


def _of_sink(query: QueryPlan) -> Iterator[Named]:
    sink = query.sink
    options = {key.lower(): value for key, value in sink.options.items()}
    kind = short_format(sink.format)
    if kind == KAFKA.names[0]:
        topic = options.get("topic")
        yield from _topics(options.get("kafka.bootstrap.servers"), [topic] if topic else [])
    elif kind in _PLACES_OF_FILES:
        yield from _list_of(at(sink.location or options.get(_PATH)))
    elif kind == ICEBERG.names[0]:
        yield from _list_of(_iceberg(query, options.get(_PATH)))


def _list_of(named: Named | None) -> list[Named]:
    return [] if named is None else [named]


def _read_topics(options: dict[str, str]) -> list[str]:
    """Return the topics of a source; none where only a pattern is known."""
    if subscribed := options.get("subscribe"):
        return [topic.strip() for topic in subscribed.split(",") if topic.strip()]
    try:
        assigned = json.loads(options.get("assign") or "{}")
    except ValueError:
        return []
    return sorted(assigned) if isinstance(assigned, dict) else []


def _topics(servers: str | None, topics: Iterable[str]) -> Iterator[Named]:
    """OpenLineage names a cluster by its first bootstrap server."""
    first = _SERVER.fullmatch((servers or "").split(",")[0].strip())
    if first is not None:
        yield from (Named(f"kafka://{first['host']}:{first['port']}", topic) for topic in topics)


def _iceberg(query: QueryPlan, table: str | None) -> Named | None:
    """Return a table's folder: its path, or ``<warehouse>/<database>/<table>`` in a catalog of type hadoop.

    Only the catalog itself knows where other tables are.
    """
    if table is None or "/" in table:
        return at(table)
    catalog, *names = (part.strip("`") for part in table.split("."))
    setting = f"spark.sql.catalog.{catalog}"
    given = query.given
    warehouse = at(given.get(f"{setting}.warehouse"))
    if not names or warehouse is None or given.get(f"{setting}.type", "").lower() != "hadoop":
        return None
    return Named(warehouse.namespace, "/".join([warehouse.name.rstrip("/"), *names]))
