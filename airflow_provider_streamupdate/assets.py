"""The asset of an app: an event of it is a deployment that was promoted."""

from __future__ import annotations

from urllib.parse import quote

from airflow.sdk import Asset, AssetAlias

PROMOTED = AssetAlias("streamupdate:promoted")
CRASH_LOOP = AssetAlias("streamupdate:crash-loop")  # a supervisor has left the app alone


def app_asset(app: str) -> Asset:
    """``streamupdate://<app>``; schedule a DAG on it to run after each promoted deployment of `app`."""
    return Asset(f"streamupdate://{quote(app, safe='')}", group="streamupdate")
