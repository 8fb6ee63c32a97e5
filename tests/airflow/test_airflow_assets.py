"""The scheme ``streamupdate://`` in Airflow, and the how-to guides: what the provider's info says of them."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import Asset

from airflow_provider_streamupdate import assets
from airflow_provider_streamupdate.assets import app_asset, create_asset
from airflow_provider_streamupdate.core.errors import InvalidInputError


def test_airflow_finds_what_it_needs_for_the_scheme(airflow_db: str) -> None:
    from airflow.providers_manager import ProvidersManager

    providers: Any = ProvidersManager()
    assert providers.asset_uri_handlers["streamupdate"] is assets.sanitize_uri
    assert providers.asset_factories["streamupdate"] is assets.create_asset
    assert providers.asset_to_openlineage_converters["streamupdate"] is assets.convert_asset_to_openlineage


@pytest.mark.parametrize("app", ["Motion-Alarm_2", "a:b@c", "a+b=c"])
def test_an_apps_asset_has_one_uri_however_it_is_written(app: str) -> None:
    made = app_asset(app)
    assert made == create_asset(app=app) and made.group == "streamupdate"
    for written in (made.uri, made.uri.rstrip("/"), made.uri.replace("streamupdate", "StreamUpdate"), f"{made.uri}#x"):
        assert Asset(uri=written).uri == made.uri
    assert Asset("streamupdate://%61larm").uri == app_asset("alarm").uri


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("streamupdate://alarm/deployments/v2", "has more than an app's name; write streamupdate://<app>"),
        ("streamupdate://", "names no app: the app name is empty"),
        ("streamupdate://alarm:8080", "write these signs of an app's name as %40 and %3A"),
        ("streamupdate://..", "names no app: app name '..' is not allowed"),
        ("streamupdate://a%00b", "names no app: app name 'a\\x00b' is not allowed"),
        ("streamupdate://%ff", "names no app: 'utf-8' codec can't decode"),
        ("streamupdate://ａlarm", "is not allowed; use letters, digits"),
        (f"streamupdate://{'x' * 201}", "has 201 characters; at most 200 are allowed"),
    ],
)
def test_a_uri_that_is_no_apps_is_refused(uri: str, why: str) -> None:
    with pytest.raises(ValueError, match="asset") as caught:
        Asset(uri=uri)
    assert why in str(caught.value)


@pytest.mark.parametrize("app", ["", "a/b", None])
def test_the_asset_of_what_is_no_name_is_refused(app: Any) -> None:
    with pytest.raises(InvalidInputError, match="app name"):
        app_asset(app)
