"""Version 2 of page-views, which a person has to approve."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_streamupdate.update_dag import build_update_dag

dag = build_update_dag(
    "approved",
    app="page-views",
    application=str(Path(__file__).parents[1] / "apps" / "v2.py"),
    app_params={"rate": "300", "api_token": "a-secret"},
    approval=True,
)
