"""The asset of an app, ``streamupdate://<app>``: an event of it is a deployment that was promoted.

What the provider's info says of this scheme (``asset-uris``) is here: how Airflow checks such a URI, makes such an
asset, and names it in OpenLineage.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

from airflow.sdk import Asset, AssetAlias, AssetWatcher

from .core.errors import InvalidInputError
from .core.names import check_name
from .hooks.settings import DEFAULT_CONN_ID

if TYPE_CHECKING:
    from airflow.providers.common.compat.openlineage.facet import Dataset

SCHEME = "streamupdate"
PROMOTED = AssetAlias("streamupdate:promoted")
CRASH_LOOP = AssetAlias("streamupdate:crash-loop")  # a supervisor has left the app alone


def app_asset(app: str) -> Asset:
    """Return the asset ``streamupdate://<app>``. A DAG scheduled on it runs after each promoted deployment."""
    return create_asset(app=app)


def release_asset(release_file: str, streamupdate_conn_id: str = DEFAULT_CONN_ID, poll_interval: float = 30.0) -> Asset:
    """Return an asset that has an event each time that an app has to be updated to what a release file describes.

    A DAG scheduled on it needs no polling. See ReleaseTrigger. InvalidInputError for a relative path.
    """
    from .triggers.release import ReleaseTrigger

    path = Path(release_file)
    if not path.is_absolute():
        raise InvalidInputError(f"release file {release_file!r} must be an absolute path: the triggerer reads it")
    trigger = ReleaseTrigger(release_file, streamupdate_conn_id, poll_interval)
    return Asset(
        path.as_uri(), group=SCHEME, watchers=[AssetWatcher(name=f"release of {release_file}", trigger=trigger)]
    )


def create_asset(*, app: str, extra: dict[str, Any] | None = None) -> Asset:
    """Return the asset of `app`, for Airflow's hook lineage. InvalidInputError for an invalid app name."""
    return Asset(f"{SCHEME}://{quote(check_name('app', app), safe='')}", group=SCHEME, extra=extra)


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Return the URI as Airflow keeps it: the app's name, with all but letters, digits and ``_.-~`` as ``%xx``.

    Airflow calls this for every asset of the scheme. InvalidInputError (a ValueError) for a URI that names no app, or
    has more than the name: two URIs of one app would be two assets.
    """
    text = uri.geturl()
    if uri.path not in ("", "/") or uri.query or uri.fragment:
        raise InvalidInputError(f"asset {text!r} has more than an app's name; write {SCHEME}://<app>")
    if "@" in uri.netloc or ":" in uri.netloc:  # else taken for a user, a password or a port
        raise InvalidInputError(
            f"asset {text!r} has '@' or ':' in it; write these signs of an app's name as %40 and %3A, or use "
            "airflow_provider_streamupdate.assets.app_asset"
        )
    try:
        app = check_name("app", unquote(uri.netloc, errors="strict"))
    except (InvalidInputError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"asset {text!r} names no app: {error}; write {SCHEME}://<app>") from error
    return uri._replace(netloc=quote(app, safe=""), path="/")


def convert_asset_to_openlineage(asset: Asset, lineage_context: Any) -> Dataset:
    """Return the dataset of an app in OpenLineage: namespace ``streamupdate``, the app's name."""
    from airflow.providers.common.compat.openlineage.facet import Dataset

    return Dataset(namespace=SCHEME, name=unquote(urlsplit(asset.uri).netloc))
