/** Updates and rollbacks, one row each; an update can be opened. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { type AppDocument, interrupted, type Maybe, type Rollback, type Run, type Update } from "./api";
import { elapsed, moment, seconds } from "./format";
import { follow } from "./frame";
import { Word } from "./list";
import { runAddress } from "./requests";
import { ReviewOf } from "./review";
import { type Column, Table } from "./table";

interface Change {
  key: string;
  started_at: string;
  ended_at: Maybe<string>;
  from: Maybe<string>;
  to: string;
  how: string;
  outcome: string;
  took: string;
  pause: Maybe<number>;
  update: Maybe<Update>;
  who: Maybe<string>;
  run: Maybe<{ dag_id: string; run_id: string; task_id: Maybe<string> }>;
  reason: Maybe<string>;
}

/** What a task's run is called in a record's `asked_by`: airflow:DAG/RUN/TASK/INDEX. */
function asked(by: string): Change["run"] {
  const told = /^airflow:([^/]+)\/(.+)\/([^/]+)\/-?\d+$/.exec(by);
  return told ? { dag_id: told[1]!, run_id: told[2]!, task_id: told[3]! } : null;
}

function ofUpdate(app: AppDocument, update: Update): Change {
  const run: Run | undefined = app.runs.find((one) => one.deployment === update.new);
  const stopped = interrupted(app) === update.new && run?.state !== "running";
  return {
    key: `update ${update.new}`,
    started_at: update.started_at,
    ended_at: update.ended_at ?? null,
    from: update.old,
    to: update.new,
    how: update.strategy,
    outcome: update.outcome ?? `${stopped ? "interrupted" : "under way"} (${update.step})`,
    took: elapsed(update.started_at, update.steps.at(-1)?.at),
    pause: update.pause_seconds,
    update,
    who: run || asked(update.asked_by ?? "") ? null : (update.asked_by ?? null),
    run: run ?? asked(update.asked_by ?? ""),
    reason: update.reason,
  };
}

function ofRollback(rollback: Rollback): Change {
  return {
    key: `rollback ${rollback.number}`,
    started_at: rollback.started_at,
    ended_at: rollback.ended_at,
    from: rollback.left,
    to: rollback.back_to,
    how: "rollback",
    outcome: rollback.ended_at ? "rolled back" : "under way",
    took: elapsed(rollback.started_at, rollback.ended_at),
    pause: null,
    update: null,
    who: asked(rollback.asked_by) ? null : rollback.asked_by,
    run: asked(rollback.asked_by),
    reason: rollback.reason,
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
    name: "Requested by",
    value: (c) => c.run?.run_id ?? c.who,
    show: (c) => (c.run ? <RunLink run={c.run} /> : (c.who || "–")),
    long: true,
  },
  { name: "Reason", value: (c) => c.reason, long: true },
];

export function Changes({ app, edits }: { app: AppDocument; edits: boolean }): JSX.Element {
  const [opened, setOpened] = useState<string[]>([]);
  const details: Column<Change> = {
    name: "Details",
    value: (c) => Number(opened.includes(c.key)),
    show: (c) =>
      c.update && (
        <button
          type="button"
          aria-expanded={opened.includes(c.key)}
          aria-label={`Details of the update to ${c.to}`}
          onClick={() => setOpened(opened.includes(c.key) ? opened.filter((one) => one !== c.key) : [...opened, c.key])}
        >
          {opened.includes(c.key) ? "Hide" : "Show"}
        </button>
      ),
  };
  return (
    <Table
      id="updates"
      columns={[...COLUMNS, details]}
      rows={changes(app)}
      rowKey={(c) => c.key}
      by="-Started"
      empty="No updates yet."
      more={(c) =>
        c.update &&
        opened.includes(c.key) && (
          <ReviewOf app={app} update={c.update} request={app.requests.find((one) => one.run_id === c.run?.run_id)} edits={edits} />
        )
      }
    />
  );
}
