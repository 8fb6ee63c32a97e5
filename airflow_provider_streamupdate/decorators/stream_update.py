"""``@task.stream_update``: a function that says what an app is to be updated to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import (
    DecoratedOperator,
    TaskDecorator,
    context_merge,
    determine_kwargs,
    task_decorator_factory,
)

from ..core.errors import InvalidInputError
from ..hooks.errors import airflow_errors
from ..hooks.update_options import UPDATE_ARGUMENTS
from ..operators.whole_update import StreamWholeUpdateOperator


class StreamUpdateDecoratedOperator(DecoratedOperator, StreamWholeUpdateOperator):
    """Updates an app to what a function returns: the path of an application, or a dict of arguments of `stream_update`.

    python_callable, op_args, op_kwargs: the function and its arguments
    app: the app
    other arguments of `stream_update`: for what the function does not return
    """

    custom_operator_name = "@task.stream_update"
    template_fields = (*DecoratedOperator.template_fields, *StreamWholeUpdateOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DecoratedOperator.template_fields_renderers,
        **StreamWholeUpdateOperator.template_fields_renderers,
    }

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        app: str,
        op_args: Collection[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        options = {name: kwargs.pop(name) for name in UPDATE_ARGUMENTS if name in kwargs}
        super().__init__(
            python_callable=python_callable, op_args=op_args, op_kwargs=op_kwargs, app=app, options=options, **kwargs
        )

    def execute(self, context: Any) -> dict[str, Any]:
        context_merge(context, self.op_kwargs)
        arguments = determine_kwargs(self.python_callable, self.op_args, context)
        returned = self.python_callable(*self.op_args, **arguments)
        with airflow_errors(context):
            if not isinstance(returned, (str, Mapping)):
                raise InvalidInputError(
                    f"{self.python_callable.__name__} must return the path of an application, or a dict of "
                    f"stream_update's arguments, not {returned!r}"
                )
        given = {"application": returned} if isinstance(returned, str) else returned
        self.options = {**self.options, **given}
        return StreamWholeUpdateOperator.execute(self, context)


def stream_update_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """Make a task of a function, as ``@task.stream_update(app=...)``. kwargs: see StreamUpdateDecoratedOperator"""
    return task_decorator_factory(
        python_callable=python_callable, decorated_operator_class=StreamUpdateDecoratedOperator, **kwargs
    )
