/** The newest compatibility check that a run has made: what it says, and what may be agreed to. */

import type { JSX } from "preact";

import type { AppDocument, Maybe, Report, ReportItem, Request } from "./api";
import { moment } from "./format";
import { follow } from "./frame";
import { Word } from "./list";
import { QueryPicture } from "./picture";
import { runAddress } from "./requests";
import { Section } from "./section";
import { type Column, Table } from "./table";

/** An agreement that the next update may be given. `same`: the author says that the meaning is the same, and why. */
export interface Offer {
  name: string;
  reason: string;
  same: boolean;
}

const lastCheck = (app: AppDocument): Request | undefined => app.requests.find((request) => request.report);

/** The report of the newest run that made one, else the one that is kept with the app. */
function lastReport(app: AppDocument): Maybe<Report> {
  return lastCheck(app)?.report ?? app.report;
}

/** What a report says may be agreed to, by the names that `--agree` takes: each once, with all that is said of it. */
export function offers(app: AppDocument): Offer[] {
  const found = new Map<string, Offer>();
  for (const item of lastReport(app)?.items ?? []) {
    const name = item.offer ?? (item.needs_agreement ? item.name : null);
    if (name === null) continue;
    const before = found.get(name);
    found.set(name, { name, reason: before ? `${before.reason}; ${item.reason}` : item.reason, same: name.endsWith(":same") });
  }
  return [...found.values()];
}

/** The queries whose function, in the version before, does not say what it does with batch ids it has had. */
export const silentFunctions = (report: Maybe<Report>): string[] =>
  (report?.items ?? []).filter((item) => item.rules.includes("sink.batch-again")).map((item) => item.name.split("/")[0]!);

function agreement(item: ReportItem): string | null {
  if (item.needs_agreement) return item.agreed ? `agreed${item.because ? `: ${item.because}` : ""}` : "needed";
  return item.offer ? `possible: ${item.offer}` : null;
}

const COLUMNS: Column<ReportItem>[] = [
  { name: "Thing", value: (i) => i.thing },
  { name: "Name", value: (i) => i.name, long: true },
  { name: "Verdict", value: (i) => i.verdict, show: (i) => <Word of={i.verdict} /> },
  { name: "Agreement", value: agreement, long: true },
  { name: "Reason", value: (i) => i.reason, long: true },
];

/** What can be done about a problem, in the order in which the command line has it, and what differs exactly. */
function nextSteps(item: ReportItem): JSX.Element | null {
  if (!item.next_steps.length) return null;
  return (
    <>
      <ul class="ways">
        {item.next_steps.map((step) => (
          <li key={step}>{step}</li>
        ))}
      </ul>
      {item.details && (
        <details>
          <summary>What differs, exactly</summary>
          <code>{item.details}</code>
        </details>
      )}
    </>
  );
}

/** `pictured`: its picture is shown elsewhere. */
export function LastCheck({ app, pictured }: { app: AppDocument; pictured: boolean }): JSX.Element | null {
  const request = lastCheck(app);
  if (!request?.report) return null;
  const { report, rehearsal } = request;
  return (
    <Section title="Last check">
      <p>
        A new version against {report.source}: <Word of={report.outcome} />, {request.check_only ? "a check only" : "before an update"}, by{" "}
        <a href={runAddress(request.dag_id, request.run_id)} onClick={follow}>
          run {request.run_id}
        </a>
        , {moment(request.started_at)}
      </p>
      {rehearsal && (
        <p>
          Its rehearsal on snapshot {rehearsal.snapshot}: <Word of={rehearsal.outcome} /> {rehearsal.problems.join("; ")}
        </p>
      )}
      {report.picture && !pictured && <QueryPicture key={request.run_id} picture={report.picture} />}
      <Table
        id="last-check"
        columns={COLUMNS}
        rows={report.items}
        rowKey={(i) => `${i.thing} ${i.name} ${i.verdict} ${i.reason}`}
        by="Thing"
        empty="It found no differences."
        more={nextSteps}
      />
    </Section>
  );
}
