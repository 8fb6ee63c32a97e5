/** The snapshots of an app. */

import type { JSX } from "preact";

import type { Asked } from "./actions";
import type { AppDocument, Snapshot } from "./api";
import { ago, bytes, moment } from "./format";
import { Word } from "./list";
import { Section } from "./section";
import { type Column, Table } from "./table";

function verified(snapshot: Snapshot): JSX.Element {
  const found = snapshot.verified;
  if (!found) return <span class="quiet">not verified</span>;
  if (found.problem) return <span class="bad" title={found.problem}>damaged, {ago(found.at)}</span>;
  return <span class="good" title={`${found.files} files`}>whole, {ago(found.at)}</span>;
}

function columns(act: ((asked: Asked) => void) | null): Column<Snapshot>[] {
  const found: Column<Snapshot>[] = [
    { name: "Time", value: (s) => s.created_at, show: (s) => moment(s.created_at), time: true },
    { name: "Size", value: (s) => s.size, show: (s) => bytes(s.size), right: true },
    { name: "App", value: (s) => s.app, long: true },
    { name: "Snapshot name", value: (s) => s.name, show: (s) => <span title={s.error?.message}>{s.name}</span>, long: true },
    { name: "Deployment", value: (s) => s.deployment, long: true },
    { name: "Kind", value: (s) => s.kind, show: (s) => <Word of={s.kind} /> },
    { name: "Batch", value: (s) => Object.values(s.queries ?? {}).map((q) => (q.batch < 0 ? "none" : q.batch)).join(", "), right: true },
    { name: "Verified", value: (s) => s.verified?.at, show: verified },
  ];
  if (act) {
    found.push({
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
  return found;
}

/** `act`: for who may; null: the column of buttons is left out. */
export function Snapshots({ app, act }: { app: AppDocument; act: ((asked: Asked) => void) | null }): JSX.Element {
  return (
    <Section title="Snapshots">
      <Table id="snapshots" columns={columns(act)} rows={app.snapshots} rowKey={(s) => s.name} by="-Time" empty="No snapshots yet." />
    </Section>
  );
}
