/** What an update changed: loaded when it is opened. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { type AppDocument, appPath, ask, type CodeDiff, type Maybe, type Request, type Review, type Update } from "./api";
import { bytes, count, seconds } from "./format";
import { Steps } from "./steps";
import { type Column, Table } from "./table";

type Setting = NonNullable<Review["settings"]>[number];
type Figure = NonNullable<Review["hours"]>["figures"][number];

const SETTINGS: Column<Setting>[] = [
  { name: "Part", value: (s) => s.part },
  { name: "Key", value: (s) => s.key, long: true },
  { name: "Before", value: (s) => s.before, long: true },
  { name: "After", value: (s) => s.after, long: true },
];

function figure(value: Maybe<number>, unit: string): string {
  if (value === null) return "–";
  if (unit === "s") return seconds(value);
  if (unit === "bytes/h") return `${value < 0 ? "-" : ""}${bytes(Math.round(Math.abs(value)))}/h`;
  return `${count(value)} ${unit}`;
}

const FIGURES: Column<Figure>[] = [
  { name: "Query", value: (f) => f.query, long: true },
  { name: "Figure", value: (f) => f.figure },
  { name: "Before", value: (f) => f.before, show: (f) => figure(f.before, f.unit), right: true },
  { name: "After", value: (f) => f.after, show: (f) => figure(f.after, f.unit), right: true },
];

const kind = (line: string): string => (line.startsWith("+") ? "good" : line.startsWith("-") ? "bad" : line.startsWith("@") ? "quiet" : "");

function useAsked<T>(path: string, wanted: boolean): { found: Maybe<T>; error: Maybe<string> } {
  const [found, setFound] = useState<Maybe<T>>(null);
  const [error, setError] = useState<Maybe<string>>(null);
  useEffect(() => {
    let over = false;
    if (wanted) {
      ask<T>(path).then(
        (answer) => over || setFound(answer),
        (problem: Error) => over || setError(problem.message),
      );
    }
    return () => {
      over = true;
    };
  }, [path, wanted]);
  return { found, error };
}

function Code({ path }: { path: string }): JSX.Element {
  const [open, setOpen] = useState(false);
  const { found, error } = useAsked<CodeDiff>(path, open);
  return (
    <details class="code" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Code</summary>
      {error && <p class="problem">{error}</p>}
      {open && !found && !error && <p class="quiet">Loading…</p>}
      {found && found.files.length === 0 && <p class="quiet">No file differs{found.same ? `; ${found.same} are the same` : ""}.</p>}
      {found?.files.map((file) => (
        <div key={file.name} class="file">
          <h4>
            {file.name}
            {file.before && <span class="quiet"> (was {file.before})</span>}
            {file.added !== null && (
              <span>
                {" "}
                <span class="good">+{file.added}</span> <span class="bad">-{file.removed}</span>
              </span>
            )}
          </h4>
          {file.lines.length > 0 && (
            <pre class="diff" tabIndex={0} aria-label={`How ${file.name} differs`}>
              {file.lines.map((line, n) => (
                <span key={n} class={kind(line)}>
                  {line}
                  {"\n"}
                </span>
              ))}
            </pre>
          )}
          {file.note && <p class="quiet">{file.note}</p>}
        </div>
      ))}
      {found?.notes.map((note) => (
        <p class="quiet" key={note}>
          {note}
        </p>
      ))}
    </details>
  );
}

const time = (span: number): string => (span >= 3600 ? `${(span / 3600).toFixed(1)} h` : `${Math.round(span / 60)} min`);

interface Props {
  app: AppDocument;
  update: Update;
  request: Request | undefined;
  /** Whether the user may see code. */
  edits: boolean;
}

export function ReviewOf({ app, update, request, edits }: Props): JSX.Element {
  const path = appPath(app.conn_id, app.app, "updates", update.new);
  const { found, error } = useAsked<Review>(path, true);
  return (
    <div class="review" role="group" aria-label={`Update to ${update.new}`}>
      <Steps app={app} update={update} request={request} review={found} />
      {update.reason && <p class="long">Reason: {update.reason}</p>}
      {error && <p class="problem">{error}</p>}
      {found && (
        <>
          {found.agreed.length > 0 && (
            <p class="long">
              Agreed to: {found.agreed.join(", ")}
            </p>
          )}
          {found.problems.map((problem) => (
            <p class="problem" key={problem}>
              {problem}
            </p>
          ))}
          <h3>Settings</h3>
          {found.settings === null ? (
            <p class="quiet">Cannot be compared: the files of one version are gone.</p>
          ) : (
            <Table id={`settings-${update.new}`} columns={SETTINGS} rows={found.settings} rowKey={(s) => `${s.part} ${s.key}`} by="Part" empty="No setting differs." />
          )}
          <h3>Hours before and after</h3>
          {found.hours ? (
            <>
              <p class="quiet">
                {time(found.hours.before)} before the new version took over, {time(found.hours.after)} after it
              </p>
              <Table id={`hours-${update.new}`} columns={FIGURES} rows={found.hours.figures} rowKey={(f) => `${f.query} ${f.figure}`} by="Query" empty="No figures." />
            </>
          ) : (
            <p class="quiet">No figures are recorded.</p>
          )}
          {edits && <Code path={`${path}/code`} />}
        </>
      )}
    </div>
  );
}
