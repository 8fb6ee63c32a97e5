/** One app. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";

import { Action, type Asked, UPDATES } from "./actions";
import { type AppDocument, appPath, ask, type Deployment, type Me, type QueryStatus, type Snapshot, type Stage } from "./api";
import { Changes, changes } from "./changes";
import { Chart } from "./chart";
import { ago, bytes, count, DEAD, moment, RUNNING, seconds } from "./format";
import { follow, safe } from "./frame";
import { cutovers, History, type Point } from "./history";
import { Word } from "./list";
import { usePolled } from "./polling";
import { Requests, runAddress } from "./requests";
import { type Column, Table } from "./table";
import { Timeline } from "./timeline";

function Section({ title, children }: { title: string; children: ComponentChildren }): JSX.Element {
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

function Charts({ app, points }: { app: AppDocument; points: Point[] }): JSX.Element {
  const times = points.map((point) => point.at);
  const marks = cutovers(app);
  const stages = [...new Set(points.flatMap((point) => Object.keys(point.rows)))].sort();
  const line = (name: string, value: (point: Point) => number | null): { name: string; values: (number | null)[] } => ({
    name,
    values: points.map(value),
  });
  const common = { times, marks };
  return (
    <div class="charts">
      <Chart title="Rows per second" unit="" series={[line("in", (p) => p.in), line("processed", (p) => p.done)]} {...common} />
      {points.some((p) => p.lag !== null) && <Chart title="Lag (rows)" unit="" series={[line("lag", (p) => p.lag)]} {...common} />}
      <Chart title="Batch duration" unit=" s" series={[line("batch", (p) => p.batch)]} {...common} />
      <Chart title="State rows by stage" unit="" series={stages.map((stage) => line(stage, (p) => p.rows[stage] ?? null))} {...common} />
    </div>
  );
}

const STAGES: Column<Stage>[] = [
  { name: "Stage", value: (s) => s.name },
  { name: "Kind", value: (s) => s.kind },
  { name: "Operator", value: (s) => s.operator_id, right: true },
  { name: "State rows", value: (s) => s.state_rows, show: (s) => count(s.state_rows), right: true },
  { name: "Verdict", value: (s) => s.verdict, show: (s) => <Word of={s.verdict} /> },
  { name: "Reason", value: (s) => s.reason },
];

type Query = QueryStatus & { name: string };

const does = (q: Query): string => (q.active ? (q.idle ? "waits for data" : "works") : "stopped");

function queryColumns(alive: boolean): Column<Query>[] {
  const live = <T,>(value: T): T | null => (alive ? value : null);
  return [
    { name: "Query", value: (q) => q.name },
    { name: "Batch", value: (q) => (q.batch < 0 ? null : q.batch), right: true },
    { name: "Committed", value: (q) => q.last_commit_at, show: (q) => ago(q.last_commit_at) },
    { name: "Watermark", value: (q) => q.watermark, show: (q) => moment(q.watermark) },
    { name: "Lag", title: "rows behind", value: (q) => live(q.lag), show: (q) => count(live(q.lag)), right: true },
    { name: "Rows/s in", value: (q) => live(q.input_rows_per_second), show: (q) => count(live(q.input_rows_per_second)), right: true },
    { name: "Rows/s done", value: (q) => live(q.processed_rows_per_second), show: (q) => count(live(q.processed_rows_per_second)), right: true },
    { name: "Batch time", value: (q) => live(q.batch_seconds), show: (q) => seconds(live(q.batch_seconds)), right: true },
    { name: "Does", value: (q) => live(does(q)) },
  ];
}

function verified(snapshot: Snapshot): JSX.Element {
  const found = snapshot.verified;
  if (!found) return <span class="quiet">not yet</span>;
  if (found.problem) return <span class="bad" title={found.problem}>damaged, {ago(found.at)}</span>;
  return <span class="good" title={`${found.files} files`}>whole, {ago(found.at)}</span>;
}

function snapshotColumns(act: ((asked: Asked) => void) | null): Column<Snapshot>[] {
  const columns: Column<Snapshot>[] = [
    { name: "Time", value: (s) => s.created_at, show: (s) => moment(s.created_at) },
    { name: "Size", value: (s) => s.size, show: (s) => bytes(s.size), right: true },
    { name: "App", value: (s) => s.app },
    { name: "Snapshot name", value: (s) => s.name, show: (s) => <span title={s.error?.message}>{s.name}</span> },
    { name: "Deployment", value: (s) => s.deployment },
    { name: "Kind", value: (s) => s.kind, show: (s) => <Word of={s.kind} /> },
    { name: "Batch", value: (s) => Object.values(s.queries ?? {}).map((q) => q.batch).join(", "), right: true },
    { name: "Verified", value: (s) => s.verified?.at, show: verified },
  ];
  if (act) {
    columns.push({
      name: "Actions",
      value: () => null,
      show: (s) => (
        <span class="buttons">
          <button type="button" onClick={() => act({ what: "verify", snapshot: s.name })}>
            Verify
          </button>
          <button type="button" onClick={() => act({ what: "delete", snapshot: s.name })}>
            Delete
          </button>
        </span>
      ),
    });
  }
  return columns;
}

const DEPLOYMENTS: Column<Deployment>[] = [
  { name: "Submitted", value: (d) => d.submitted_at, show: (d) => moment(d.submitted_at) },
  { name: "Deployment", value: (d) => d.deployment },
  { name: "State", value: (d) => d.state, show: (d) => <Word of={d.state} /> },
  { name: "Epoch", value: (d) => d.epoch, right: true },
  { name: "Parent", value: (d) => d.parent },
  { name: "From snapshot", value: (d) => d.from_snapshot },
  { name: "Heartbeat", value: (d) => d.heartbeat_at, show: (d) => ago(d.heartbeat_at) },
  {
    name: "Spark UI",
    value: (d) => d.spark_ui,
    show: (d) =>
      safe(d.spark_ui) && RUNNING.includes(d.state) ? (
        <a href={safe(d.spark_ui)!} target="_blank" rel="noopener" onClick={follow}>
          Spark UI
        </a>
      ) : (
        "–"
      ),
  },
  { name: "Driver log", value: (d) => d.driver_log, show: (d) => <span title={d.host ?? ""}>{d.driver_log ?? "–"}</span> },
  { name: "Reason", value: (d) => d.error ?? d.reason, show: (d) => <span class={d.error ? "bad" : ""}>{d.error ?? d.reason ?? "–"}</span> },
];

function Settings({ title, of }: { title: string; of: Record<string, string> }): JSX.Element | null {
  const entries = Object.entries(of).sort();
  if (!entries.length) return null;
  return (
    <div>
      <h3>{title}</h3>
      <dl>
        {entries.map(([key, value]) => (
          <div key={key}>
            <dt>{key}</dt>
            <dd>{String(value)}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

/** `alone`: as a tab, without the way back to the list. */
export function AppPage({ conn, app: name, alone }: { conn: string; app: string; alone?: boolean }): JSX.Element {
  const history = useMemo(() => new History(conn, name), []);
  const { document: app, error, again } = usePolled<AppDocument>(
    appPath(conn, name),
    () => 2000,
    (seen) => history.add(seen),
  );
  const [me, setMe] = useState<Me | null>(null);
  const [asked, setAsked] = useState<Asked | null>(null);
  const [said, setSaid] = useState<string | null>(null);
  useEffect(() => {
    ask<Me>("api/me").then(setMe, () => setMe(null));
  }, []);
  const back = !alone && <a href="?">Streaming apps</a>;
  if (!app) {
    return (
      <>
        <header>
          <h1>
            {back} {name}
          </h1>
        </header>
        {error ? <p class="problem">{error}</p> : <p class="quiet">Loading…</p>}
      </>
    );
  }
  const current = app.deployments.find((deployment) => deployment.current);
  const underWay = app.updates.find((update) => update.outcome === null);
  const following = app.runs.find((run) => run.deployment === underWay?.new && run.state === "running");
  const interrupted = app.interrupted && !following ? app.interrupted : null;
  const last = changes(app).at(-1);
  const ongoing = underWay && [underWay.old, underWay.new].includes(current?.deployment ?? "");
  const edits = me?.may_edit ?? false;
  const triggers = (dag: string | undefined): boolean => !!dag && !!me?.may_trigger[dag] && !me.missing_dags.includes(dag);
  return (
    <>
      <header>
        <h1>
          {back} {app.app}
        </h1>
        <Word of={app.state} />
        <span>
          {app.current ? `deployment ${app.current.deployment}, epoch ${app.current.epoch}` : "no deployment"}
        </span>
        <span class="quiet">heartbeat {ago(app.status?.heartbeat_at)}</span>
        {last && !underWay && (
          <span class="quiet" id="last-change">
            {last.how === "rollback" ? `from ${last.from} to ${last.to}: ` : `last update, to ${last.to}: `}
            <Word of={last.outcome} /> {ago(last.started_at)}
            {last.pause !== null && `, pause ${seconds(last.pause)}`}
          </span>
        )}
        <span class="buttons right">
          {edits && (
            <button type="button" onClick={() => setAsked({ what: "snapshot" })}>
              Take a snapshot
            </button>
          )}
          {triggers(me?.update_dag_id) && conn === UPDATES && (
            <button type="button" class="primary" onClick={() => setAsked({ what: "update" })}>
              Update…
            </button>
          )}
          {triggers(me?.restart_dag_id) && current && DEAD.includes(app.state) && !ongoing && (
            <button type="button" class="primary" onClick={() => setAsked({ what: "restart" })}>
              Restart…
            </button>
          )}
          {triggers(me?.rollback_dag_id) && current?.parent && (
            <button type="button" onClick={() => setAsked({ what: "rollback" })}>
              Roll back…
            </button>
          )}
        </span>
      </header>
      {error && <p class="problem">{error}</p>}
      {edits && me!.missing_dags.length > 0 && (
        <p class="problem" id="missing-dags">
          Airflow has no DAG {me!.missing_dags.join(", ")}: streamupdate init-dags puts the files into the DAGs folder. Until then the
          buttons that need them are left out.
        </p>
      )}
      {said && (
        <p class="said" role="status">
          {said}
        </p>
      )}
      <Requests app={app} me={me} />
      {app.next_step && !(app.interrupted && following) && (
        <p class="problem" role="status" id="next-step">
          {interrupted ? `${app.next_step[0]!.toUpperCase()}${app.next_step.slice(1)}` : `The driver is ${app.state}: ${app.next_step}`}
        </p>
      )}
      {app.status?.error && <p class="problem">{app.status.error}</p>}
      {underWay && !interrupted && (
        <p class="under-way" role="status">
          Update to {underWay.new} ({underWay.strategy}): {underWay.steps.map((step) => step.step).join(" → ")} …{" "}
          {following && (
            <a href={runAddress(following.dag_id, following.run_id)} onClick={follow}>
              {following.dag_id}
            </a>
          )}
        </p>
      )}
      <Charts app={app} points={history.points} />
      {app.status && (
        <Section title="Queries">
          <Table
            id="queries"
            columns={queryColumns(RUNNING.includes(app.state))}
            rows={Object.entries(app.status.queries).map(([name, query]) => ({ ...query, name }))}
            rowKey={(q) => q.name}
            by="Query"
            empty="It has not started a query yet."
          />
        </Section>
      )}
      <Section title="Timeline">
        <Timeline app={app} />
      </Section>
      <Section title="Stages">
        <Table id="stages" columns={STAGES} rows={app.stages} rowKey={(s) => s.name} by="Stage" empty="It keeps no state." />
        {app.report && (
          <p class="quiet">
            Verdicts of the last compatibility report, for {app.report.deployment} against {app.report.source}:{" "}
            <Word of={app.report.outcome} />
          </p>
        )}
      </Section>
      <Section title="Snapshots">
        <Table
          id="snapshots"
          columns={snapshotColumns(edits ? setAsked : null)}
          rows={app.snapshots}
          rowKey={(s) => s.name}
          by="-Time"
          empty="No snapshots yet."
        />
      </Section>
      <Section title="Updates and rollbacks">
        <Changes app={app} />
      </Section>
      <Section title="Deployments">
        <Table id="deployments" columns={DEPLOYMENTS} rows={app.deployments} rowKey={(d) => d.deployment} by="-Submitted" empty="There is none." />
      </Section>
      {current && (
        <Section title="Application">
          <p>{current.application.file}</p>
          <div class="settings">
            <Settings title="Parameters" of={current.application.params} />
            <Settings title="Spark configuration" of={current.application.conf} />
          </div>
        </Section>
      )}
      <Section title="Events">
        <ol class="events">
          {[...app.events].reverse().map((event) => {
            const { at, epoch, event: what, ...details } = event;
            const told = Object.entries(details).filter(([, value]) => value !== null);
            return (
              <li key={`${at} ${what}`}>
                <time>{moment(at)}</time> epoch {epoch}: {what}{" "}
                {told
                  .map(([key, value]) => {
                    const text = typeof value === "string" ? value : JSON.stringify(value);
                    return key === what ? text : `${key} ${text}`;
                  })
                  .join(", ")}
              </li>
            );
          })}
        </ol>
      </Section>
      {asked && me && (
        <Action
          key={JSON.stringify(asked)}
          app={app}
          me={me}
          asked={asked}
          close={() => setAsked(null)}
          done={(text) => {
            setSaid(text);
            again();
          }}
        />
      )}
    </>
  );
}
