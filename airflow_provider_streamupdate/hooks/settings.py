"""The settings in a `streamupdate` connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from ..core.errors import InvalidInputError
from ..core.names import check_keys
from .templated_values import json_map, optional_text, seconds, text_map

DEFAULT_CONN_ID = "streamupdate_default"
DEFAULT_SPARK_CONN_ID = "spark_default"
_FIELDS = ("root", "spark_conn_id", "kubernetes_conn_id", "spark_submit", "storage_options", "defaults")
_DEFAULTS = ("conf", "env_vars", "drain_timeout", "submit_timeout", "poll_interval")


@attrs.frozen(kw_only=True)
class Settings:
    """The connection's extra, checked.

    root: URI or path under which all apps are kept
    spark_conn_id: the Spark connection drivers are submitted through
    kubernetes_conn_id: the Kubernetes connection by which their cluster is reached; None: as kubectl reaches it
    spark_submit: path of the spark-submit to use; None: STREAMUPDATE_SPARK_SUBMIT, SPARK_HOME, then PATH
    storage_options: what fsspec needs to reach `root`
    conf, env_vars: Spark configuration and driver environment for every app; the app's own values override them
    drain_timeout, submit_timeout, poll_interval: seconds; defaults of the operators
    """

    conn_id: str
    root: str
    spark_conn_id: str = DEFAULT_SPARK_CONN_ID
    kubernetes_conn_id: str | None = None
    spark_submit: str | None = None
    storage_options: dict[str, Any] = attrs.field(factory=dict, repr=False)
    conf: dict[str, str] = attrs.field(factory=dict)
    env_vars: dict[str, str] = attrs.field(factory=dict)
    drain_timeout: float = 300.0
    submit_timeout: float = 180.0
    poll_interval: float = 2.0

    @classmethod
    def from_extra(cls, conn_id: str, conn_type: str | None, extra: Mapping[str, Any]) -> Settings:
        """Return the settings in a connection's extra; InvalidInputError names a wrong field and its valid values."""
        where = f"connection {conn_id}"
        if conn_type and conn_type != "streamupdate":
            raise InvalidInputError(f"{where} is of type {conn_type!r}; give one of type streamupdate (Stream Update)")
        check_keys(extra, _FIELDS, where)
        root = optional_text(extra.get("root"))
        if root is None:
            raise InvalidInputError(f"{where} has no root; enter the root URI (a path, s3://..., hdfs://...) in it")
        defaults = json_map(extra.get("defaults"), f"field defaults of {where}")
        check_keys(defaults, _DEFAULTS, f"field defaults of {where}")
        timeouts = {
            name: seconds(defaults[name], f"{name} in defaults of {where}")
            for name in ("drain_timeout", "submit_timeout", "poll_interval")
            if name in defaults
        }
        return cls(
            conn_id=conn_id,
            root=root,
            spark_conn_id=optional_text(extra.get("spark_conn_id")) or DEFAULT_SPARK_CONN_ID,
            kubernetes_conn_id=optional_text(extra.get("kubernetes_conn_id")),
            spark_submit=optional_text(extra.get("spark_submit")),
            storage_options=json_map(extra.get("storage_options"), f"field storage_options of {where}"),
            conf=text_map(defaults.get("conf"), f"conf in defaults of {where}"),
            env_vars=text_map(defaults.get("env_vars"), f"env_vars in defaults of {where}"),
            **timeouts,
        )
