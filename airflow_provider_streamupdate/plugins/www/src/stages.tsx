/** The stages that keep state. */

import type { JSX } from "preact";

import type { AppDocument, Stage } from "./api";
import { count } from "./format";
import { Word } from "./list";
import { Section } from "./section";
import { type Column, Table } from "./table";

const COLUMNS: Column<Stage>[] = [
  { name: "Stage", value: (s) => s.name, long: true },
  { name: "Kind", value: (s) => s.kind },
  { name: "Operator", value: (s) => s.operator_id, right: true },
  { name: "State rows", value: (s) => s.state_rows, show: (s) => count(s.state_rows), right: true },
  { name: "Verdict", value: (s) => s.verdict, show: (s) => <Word of={s.verdict} /> },
  { name: "Reason", value: (s) => s.reason, long: true },
];

export function Stages({ app }: { app: AppDocument }): JSX.Element {
  return (
    <Section title="Stages">
      <Table id="stages" columns={COLUMNS} rows={app.stages} rowKey={(s) => s.name} by="Stage" empty="It keeps no state." />
      {app.report && (
        <p class="quiet">
          Verdicts of the last compatibility report, for {app.report.deployment} against {app.report.source}: <Word of={app.report.outcome} />
        </p>
      )}
    </Section>
  );
}
