/** The versions that an app has had, and what its current one is made of. */

import type { JSX } from "preact";

import type { AppDocument, Deployment } from "./api";
import { ago, moment, NOTHING, RUNNING } from "./format";
import { follow, safe } from "./frame";
import { Word } from "./list";
import { Section } from "./section";
import { type Column, Table } from "./table";

const COLUMNS: Column<Deployment>[] = [
  { name: "Submitted", value: (d) => d.submitted_at, show: (d) => moment(d.submitted_at), time: true },
  { name: "Deployment", value: (d) => d.deployment, long: true },
  { name: "State", value: (d) => d.state, show: (d) => <Word of={d.state} /> },
  { name: "Epoch", value: (d) => d.epoch, right: true },
  { name: "Parent", value: (d) => d.parent, long: true },
  { name: "From snapshot", value: (d) => d.from_snapshot, long: true },
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
        NOTHING
      ),
  },
  { name: "Driver log", value: (d) => d.driver_log, show: (d) => <span title={d.host ?? ""}>{d.driver_log ?? NOTHING}</span>, long: true },
  { name: "Reason", value: (d) => d.error ?? d.reason, show: (d) => <span class={d.error ? "bad" : ""}>{d.error ?? d.reason ?? NOTHING}</span>, long: true },
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

export function Deployments({ app }: { app: AppDocument }): JSX.Element {
  const current = app.deployments.find((deployment) => deployment.current);
  return (
    <>
      <Section title="Deployments">
        <Table id="deployments" columns={COLUMNS} rows={app.deployments} rowKey={(d) => d.deployment} by="-Submitted" empty="No deployments yet." />
      </Section>
      {current && (
        <Section title="Application">
          <p class="long">{current.application.file}</p>
          <div class="settings">
            <Settings title="Parameters" of={current.application.params} />
            <Settings title="Spark configuration" of={current.application.conf} />
          </div>
        </Section>
      )}
    </>
  );
}
