"""A task that renders templates in its run, and returns the names that its context has."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, get_current_context, task

with DAG("templates", schedule=None, params={"texts": []}) as dag:

    @task(retries=0)
    def render() -> dict[str, Any]:
        context = get_current_context()
        texts = [dag.get_template_env().from_string(text).render(**context) for text in context["params"]["texts"]]
        return {"names": sorted(context.keys()), "texts": texts, "logical_date": str(context["dag_run"].logical_date)}

    render()
