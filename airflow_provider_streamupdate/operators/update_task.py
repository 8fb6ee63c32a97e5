"""Base class of the tasks of an update: their options, and the engine made from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ..control.update.engine import UpdateEngine
from ..hooks.update_options import update_options
from .base import StreamUpdateOperator, owner_of, traceparent_of


class UpdateTaskOperator(StreamUpdateOperator):
    """Base class of the tasks that are a step of an update.

    app: the app's name
    options: the update's options: the arguments of `update_dag.stream_update`, by name, each templated
    """

    template_fields = (*StreamUpdateOperator.template_fields, "app", "options")
    template_fields_renderers: ClassVar[dict[str, str]] = {"options": "json"}

    def __init__(self, *, app: str, options: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.app = app
        self.options = options

    def engine(self, context: Any) -> UpdateEngine:
        """Return the engine for these options. InvalidInputError for an invalid option."""
        ti = context["ti"]
        options = update_options(self.options, self.hook.settings, owner_of(ti), traceparent_of(ti))
        return UpdateEngine(self.client.context, options, self.log.info)
