"""The connection's form for Airflow 3.1, which asks the hook for it. Later versions read the provider's info."""

from __future__ import annotations

from typing import Any

from ..get_provider_info import connection_type


def widgets() -> dict[str, Any]:
    """Return the form's fields (WTForms) by name.

    Airflow calls this with WTForms and Flask-AppBuilder, or with its own replacements for them; without either
    (ImportError) it shows no form.
    """
    from flask_appbuilder.fieldwidgets import BS3PasswordFieldWidget, BS3TextFieldWidget
    from wtforms import PasswordField, StringField

    def widget_of(field: dict[str, Any]) -> Any:
        schema = field["schema"]
        kind, widget = StringField, BS3TextFieldWidget
        if schema.get("format") == "password":
            kind, widget = PasswordField, BS3PasswordFieldWidget
        return kind(field["label"], description=field["description"], default=schema.get("default"), widget=widget())

    return {name: widget_of(field) for name, field in connection_type()["conn-fields"].items()}


def behaviour() -> dict[str, Any]:
    return {key.replace("-", "_"): value for key, value in connection_type()["ui-field-behaviour"].items()}
