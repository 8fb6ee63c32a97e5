/** The runs that were asked for and have not ended, or the last one that failed, with their steps. */

import type { JSX } from "preact";

import { airflow, type AppDocument, type Me, type Request } from "./api";
import { elapsed, NOTHING } from "./format";
import { follow } from "./frame";

const OPEN = ["queued", "running"];
const FAILED_SHOWN = 24 * 3600 * 1000;

export const runAddress = (dag: string, run: string): string =>
  `${airflow}dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(run)}`;

/** What is shown: runs under way, and the newest when it failed lately. */
function shown(requests: Request[]): Request[] {
  const [newest] = requests;
  const open = requests.filter((request) => OPEN.includes(request.state));
  const failed = newest?.state === "failed" && Date.now() - Date.parse(newest.ended_at ?? "") < FAILED_SHOWN;
  return failed ? [newest!, ...open] : open;
}

function what(me: Me | null, request: Request): string {
  if (request.dag_id === me?.rollback_dag_id) return "Rollback";
  return request.dag_id === me?.restart_dag_id ? "Restart" : "Update";
}

function state(request: Request): string {
  if (request.state === "queued" && request.paused) return "waits, because its DAG is paused: unpause it in Airflow";
  if (request.state === "queued") return `is queued, ${elapsed(request.queued_at, null)}`;
  return `${request.state === "failed" ? "failed" : "is running"}, ${elapsed(request.started_at, request.ended_at)}`;
}

function Steps({ request }: { request: Request }): JSX.Element | null {
  const tasks = request.tasks.filter((task) => task.state !== "skipped" && task.state !== "removed");
  if (!tasks.length) return null;
  return (
    <span class="steps">
      {tasks.map((task) => (
        <a
          key={task.task_id}
          class={task.state === "failed" || task.state === "upstream_failed" ? "bad" : ""}
          href={`${runAddress(request.dag_id, request.run_id)}/tasks/${encodeURIComponent(task.task_id)}`}
          onClick={follow}
        >
          {task.task_id.replace(/^.*\./, "")} {task.started_at ? elapsed(task.started_at, task.ended_at) : NOTHING} {task.state}
        </a>
      ))}
    </span>
  );
}

export function Requests({ app, me }: { app: AppDocument; me: Me | null }): JSX.Element {
  return (
    <>
      {shown(app.requests).map((request) => (
        <p
          key={`${request.dag_id} ${request.run_id}`}
          class={request.state === "failed" || request.paused ? "problem request" : "under-way request"}
          role="status"
        >
          {what(me, request)} by{" "}
          <a href={runAddress(request.dag_id, request.run_id)} onClick={follow}>
            run {request.run_id} of {request.dag_id}
          </a>{" "}
          {state(request)} <Steps request={request} />
        </p>
      ))}
    </>
  );
}
