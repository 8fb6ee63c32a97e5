/** What the driver reports of each query. */

import type { JSX } from "preact";

import type { AppDocument, QueryStatus } from "./api";
import { ago, count, moment, NOTHING, RUNNING, seconds } from "./format";
import { Section } from "./section";
import { type Column, Table } from "./table";

type Query = QueryStatus & { name: string };

const stateOf = (q: Query): string => (q.active ? (q.idle ? "waiting for data" : "processing") : "stopped");

/** `alive`: what a dead driver reported last is not what it does. Its exceptions stay true. */
function columns(alive: boolean): Column<Query>[] {
  const live = <T,>(value: T): T | null => (alive ? value : null);
  return [
    { name: "Query", value: (q) => q.name, long: true },
    { name: "Batch", value: (q) => (q.batch < 0 ? null : q.batch), right: true },
    { name: "Committed", value: (q) => q.last_commit_at, show: (q) => ago(q.last_commit_at) },
    { name: "Watermark", value: (q) => q.watermark, show: (q) => moment(q.watermark), time: true },
    { name: "Lag", title: "rows behind", value: (q) => live(q.lag), show: (q) => count(live(q.lag)), right: true },
    { name: "Rows/s in", value: (q) => live(q.input_rows_per_second), show: (q) => count(live(q.input_rows_per_second)), right: true },
    { name: "Rows/s processed", value: (q) => live(q.processed_rows_per_second), show: (q) => count(live(q.processed_rows_per_second)), right: true },
    { name: "Batch time", value: (q) => live(q.batch_seconds), show: (q) => seconds(live(q.batch_seconds)), right: true },
    { name: "State", value: (q) => live(stateOf(q)) },
    { name: "Exception", value: (q) => q.error, show: (q) => <span class={q.error ? "bad" : ""}>{q.error ?? NOTHING}</span>, long: true },
  ];
}

export function Queries({ app }: { app: AppDocument }): JSX.Element | null {
  if (!app.status) return null;
  return (
    <Section title="Queries">
      <Table
        id="queries"
        columns={columns(RUNNING.includes(app.state))}
        rows={Object.entries(app.status.queries).map(([name, query]) => ({ ...query, name }))}
        rowKey={(q) => q.name}
        by="Query"
        empty="No query has started yet."
      />
    </Section>
  );
}
