"""The operator that runs a Spark Declarative Pipeline whose code changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ..hooks.templated_values import text_list, text_map
from ..hooks.update_options import application_from
from ..hooks.xcom import plain_dict
from ..pipelines.operations import Pipeline, run_pipeline
from .base import StreamUpdateOperator


class StreamPipelineOperator(StreamUpdateOperator):
    """Runs a Spark Declarative Pipeline to its end; each flow continues from its state when its code has changed.

    It takes the place of Airflow's `SparkPipelinesOperator`. If a flow cannot continue from its checkpoint, nothing is
    written or run, and the task fails without retries. Returns the flows with version and batch, which of them are new,
    and which were carried over to changed code, as plain data. No root is needed.

    pipeline_spec: path of the pipeline's specification (YAML)
    conf, env_vars: Spark configuration and environment of the driver; they override the connection's
    py_files, files: more files for the driver and the executors, as for spark-submit
    agree: losses that are agreed to, by the names that the check gives them
    renames: ``{"old": "new"}`` names of stages and sources
    """

    template_fields: Sequence[str] = (
        *StreamUpdateOperator.template_fields,
        "pipeline_spec",
        "conf",
        "env_vars",
        "py_files",
        "files",
        "agree",
        "renames",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"conf": "json", "env_vars": "json", "renames": "json"}
    ui_color = "#e3eef0"
    needs_root = False

    def __init__(
        self,
        *,
        pipeline_spec: str,
        conf: Mapping[str, Any] | str | None = None,
        env_vars: Mapping[str, Any] | str | None = None,
        py_files: Sequence[str] | str | None = None,
        files: Sequence[str] | str | None = None,
        agree: Sequence[str] | str | None = None,
        renames: Mapping[str, Any] | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pipeline_spec = pipeline_spec
        self.conf = conf
        self.env_vars = env_vars
        self.py_files = py_files
        self.files = files
        self.agree = agree
        self.renames = renames

    def execute(self, context: Any) -> dict[str, Any]:
        with self.step(context):
            pipeline = Pipeline(
                self.hook.get_launcher(),
                application_from(
                    self.pipeline_spec, {n: getattr(self, n) for n in ("py_files", "files", "conf", "env_vars")}
                ),
                text_list(self.agree, "agree"),
                text_map(self.renames, "renames"),
                self.hook.settings.storage_options,
            )
            return plain_dict(run_pipeline(pipeline, self.log.info).summary())
