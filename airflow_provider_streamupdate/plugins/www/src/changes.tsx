/** Updates and rollbacks, one row each. */

import type { JSX } from "preact";

import { type AppDocument, type Maybe, type Rollback, type Run, type Update } from "./api";
import { elapsed, moment, seconds } from "./format";
import { follow } from "./frame";
import { Word } from "./list";
import { runAddress } from "./requests";
import { type Column, Table } from "./table";

interface Change {
  key: string;
  started_at: string;
  from: Maybe<string>;
  to: string;
  how: string;
  outcome: string;
  took: string;
  pause: Maybe<number>;
  steps: Update["steps"];
  verified: string[];
  snapshot: Maybe<string>;
  run: Maybe<{ dag_id: string; run_id: string; task_id: Maybe<string> }>;
  reason: Maybe<string>;
}

/** What a task's run is called in a record's `asked_by`: airflow:DAG/RUN/TASK/INDEX. */
function asked(rollback: Rollback): Change["run"] {
  const told = /^airflow:([^/]+)\/(.+)\/([^/]+)\/-?\d+$/.exec(rollback.asked_by);
  return told ? { dag_id: told[1]!, run_id: told[2]!, task_id: told[3]! } : null;
}

function ofUpdate(app: AppDocument, update: Update): Change {
  const run: Run | undefined = app.runs.find((one) => one.deployment === update.new);
  const stopped = app.interrupted?.deployment === update.new && run?.state !== "running";
  return {
    key: `update ${update.new}`,
    started_at: update.started_at,
    from: update.old,
    to: update.new,
    how: update.strategy,
    outcome: update.outcome ?? `${stopped ? "interrupted" : "under way"} (${update.step})`,
    took: elapsed(update.started_at, update.steps.at(-1)?.at),
    pause: update.pause_seconds,
    steps: update.steps,
    verified: update.verified,
    snapshot: update.snapshot,
    run: run ?? null,
    reason: update.reason,
  };
}

function ofRollback(rollback: Rollback): Change {
  return {
    key: `rollback ${rollback.number}`,
    started_at: rollback.started_at,
    from: rollback.left,
    to: rollback.back_to,
    how: "rollback",
    outcome: rollback.ended_at ? "rolled back" : "under way",
    took: elapsed(rollback.started_at, rollback.ended_at),
    pause: null,
    steps: [],
    verified: [],
    snapshot: null,
    run: asked(rollback),
    reason: rollback.reason ?? (asked(rollback) ? null : `asked for by ${rollback.asked_by}`),
  };
}

export const changes = (app: AppDocument): Change[] =>
  [...app.updates.map((update) => ofUpdate(app, update)), ...app.rollbacks.map(ofRollback)].sort((a, b) =>
    a.started_at.localeCompare(b.started_at),
  );

function RunLink({ run }: { run: Change["run"] }): JSX.Element {
  if (!run) return <>–</>;
  const address = runAddress(run.dag_id, run.run_id);
  return (
    <>
      <a href={address} onClick={follow}>
        {run.dag_id}
      </a>{" "}
      {run.task_id && (
        <a href={`${address}/tasks/${encodeURIComponent(run.task_id)}`} onClick={follow}>
          task log
        </a>
      )}
    </>
  );
}

const COLUMNS: Column<Change>[] = [
  { name: "Started", value: (c) => c.started_at, show: (c) => moment(c.started_at), time: true },
  { name: "From", value: (c) => c.from, long: true },
  { name: "To", value: (c) => c.to, long: true },
  { name: "Strategy", value: (c) => c.how },
  { name: "Outcome", value: (c) => c.outcome, show: (c) => <Word of={c.outcome} /> },
  { name: "Pause", value: (c) => c.pause, show: (c) => seconds(c.pause), right: true },
  { name: "Took", value: (c) => c.took, right: true },
  {
    name: "Steps",
    value: (c) => c.steps.length,
    show: (c) => (
      <span class="steps">
        {c.steps.map((step) => (
          <span key={step.step} title={moment(step.at)}>
            {step.step} {seconds(step.seconds)}
          </span>
        ))}
      </span>
    ),
  },
  {
    name: "Verified",
    title: "what held when the new version was found healthy",
    value: (c) => c.verified.length,
    show: (c) => c.verified.map((condition) => <div key={condition}>{condition}</div>),
    long: true,
  },
  { name: "Snapshot", value: (c) => c.snapshot, long: true },
  { name: "Run", value: (c) => c.run?.run_id, show: (c) => <RunLink run={c.run} /> },
  { name: "Reason", value: (c) => c.reason, long: true },
];

export function Changes({ app }: { app: AppDocument }): JSX.Element {
  return <Table id="updates" columns={COLUMNS} rows={changes(app)} rowKey={(c) => c.key} by="-Started" empty="No updates yet." />;
}
