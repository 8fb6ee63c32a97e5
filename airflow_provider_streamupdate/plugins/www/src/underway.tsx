/** The update that is under way, by the step it is at. */

import type { JSX } from "preact";

import type { Request, Run, Update } from "./api";
import { Elapsed } from "./elapsed";
import { follow } from "./frame";
import { runAddress } from "./requests";
import { runningTask, taskName, updateStep } from "./step";

interface Props {
  update: Update;
  run: Run | undefined;
  request: Request | undefined;
}

/** `run`: the one that works on it, `request`: the same with its tasks; none for an update by the command line. */
export function UnderWay({ update, run, request }: Props): JSX.Element {
  const { doing, since } = updateStep(update, request);
  const task = runningTask(request);
  const asks = task !== undefined && taskName(task) === "approve";
  return (
    <div class="under-way">
      Update to {update.new} ({update.strategy}):{" "}
      <strong class="step">
        {doing}
        {since && <>, <Elapsed since={since} /></>}
      </strong>{" "}
      <span class="quiet">
        of <Elapsed since={update.started_at} />
      </span>{" "}
      {run && (
        <a href={runAddress(run.dag_id, run.run_id)} onClick={follow}>
          {run.dag_id}
        </a>
      )}
      {asks && run && (
        <p>
          It waits for an approval in Airflow:{" "}
          <a href={`${runAddress(run.dag_id, run.run_id)}/tasks/${encodeURIComponent(task.task_id)}`} onClick={follow}>
            approve or reject it
          </a>
          . {update.old} keeps running, unchanged.
        </p>
      )}
    </div>
  );
}
