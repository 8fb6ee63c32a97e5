"""Base class of the tasks of an update: their options, and the engine made from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from ..control.update.engine import UpdateEngine
from ..hooks.metrics import count_update
from ..hooks.update_options import update_options
from .base import StreamUpdateOperator, owner_of, traceparent_of

if TYPE_CHECKING:
    from ..control.client import StreamUpdateClient


@contextmanager
def counting(client: StreamUpdateClient, app: str, deployment: str | None) -> Iterator[None]:
    """Count the update that the block ends, unless it had ended before.

    deployment: the one that the update brings in; None: the update under way
    """
    registry = client.registry.existing(app)
    before = registry.update(deployment) if deployment else registry.update_under_way()
    yield
    if before is None or before.outcome is not None:
        return
    after = registry.update(before.new)
    if after is not None and after.outcome is not None:
        count_update(after)


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
