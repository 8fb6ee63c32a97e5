/** The runs that were asked for and have not ended, or the last one that failed, with the step they are at. */

import type { JSX } from "preact";

import { airflow, type AppDocument, type Me, type Request } from "./api";
import { Elapsed } from "./elapsed";
import { elapsed } from "./format";
import { follow } from "./frame";
import { runningTask, taskName, taskStep } from "./step";

const OPEN = ["queued", "running"];
const FAILED_SHOWN = 24 * 3600 * 1000;

export const runAddress = (dag: string, run: string): string =>
  `${airflow}dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(run)}`;

export const isOpen = (request: Request): boolean => OPEN.includes(request.state);

/** What is shown: runs under way, and the newest when it failed lately. */
function shown(requests: Request[]): Request[] {
  const [newest] = requests;
  const open = requests.filter(isOpen);
  const failed = newest?.state === "failed" && Date.now() - Date.parse(newest.ended_at ?? "") < FAILED_SHOWN;
  return failed ? [newest!, ...open] : open;
}

export function what(me: Me | null, request: Request): string {
  if (request.dag_id === me?.rollback_dag_id) return "Rollback";
  if (request.dag_id === me?.restart_dag_id) return "Restart";
  return request.check_only ? "Check" : "Update";
}

function State({ request }: { request: Request }): JSX.Element {
  if (request.state === "queued" && request.paused) return <>waits, because its DAG is paused: unpause it in Airflow</>;
  if (request.state === "failed") return <>failed, {elapsed(request.started_at, request.ended_at)}</>;
  const since = request.state === "queued" ? request.queued_at : request.started_at;
  return (
    <>
      {request.state === "queued" ? "is queued" : "is running"}
      {since && <>, <Elapsed since={since} /></>}
    </>
  );
}

/** What it is at; of one that failed, what did. */
function Steps({ request }: { request: Request }): JSX.Element | null {
  const failed = request.tasks.filter((task) => task.state === "failed");
  const running = isOpen(request) ? runningTask(request) : undefined;
  const tasks = running ? [running] : failed;
  if (!tasks.length) return null;
  return (
    <span class="steps">
      {tasks.map((task) => (
        <a
          key={task.task_id}
          class={task.state === "failed" ? "bad" : ""}
          href={`${runAddress(request.dag_id, request.run_id)}/tasks/${encodeURIComponent(task.task_id)}`}
          onClick={follow}
        >
          {task === running ? taskStep(task).doing : `${taskName(task)} failed`}
          {task === running && task.started_at && <>, <Elapsed since={task.started_at} /></>}
        </a>
      ))}
    </span>
  );
}

/** `besides`: the run that is shown as an update under way already. */
export function Requests({ app, me, besides }: { app: AppDocument; me: Me | null; besides: string | undefined }): JSX.Element {
  return (
    <>
      {shown(app.requests)
        .filter((request) => request.run_id !== besides)
        .map((request) => (
          <p
            key={`${request.dag_id} ${request.run_id}`}
            class={request.state === "failed" || request.paused ? "problem request" : "under-way request"}
          >
            {what(me, request)} by{" "}
            <a href={runAddress(request.dag_id, request.run_id)} onClick={follow}>
              run {request.run_id} of {request.dag_id}
            </a>{" "}
            <State request={request} /> <Steps request={request} />
          </p>
        ))}
    </>
  );
}
