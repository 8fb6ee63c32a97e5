/** The end of the driver's log, which is asked for only while it is open. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { appPath, type DriverLog } from "./api";
import { usePolled } from "./polling";

const PERIOD = 3000;

function Lines({ path }: { path: string }): JSX.Element {
  const { document: log, error } = usePolled<DriverLog>(path, () => PERIOD);
  const box = useRef<HTMLPreElement>(null);
  const follows = useRef(true); // the end, until the reader scrolls up
  useEffect(() => {
    if (box.current && follows.current) box.current.scrollTop = box.current.scrollHeight;
  }, [log]);
  if (!log) return error ? <p class="problem">{error}</p> : <p class="quiet">Loading…</p>;
  return (
    <>
      {error && <p class="problem">{error}</p>}
      <p class="quiet long">
        {log.note ?? ""} {log.lines.length > 0 && `The last ${log.lines.length} lines of ${log.path ?? ""} on ${log.host ?? ""}`}
      </p>
      {log.lines.length > 0 && (
        <pre
          ref={box}
          class="log"
          tabIndex={0}
          aria-label="Driver log"
          onScroll={({ currentTarget: at }) => {
            follows.current = at.scrollHeight - at.scrollTop - at.clientHeight < 30;
          }}
        >
          {log.lines.join("\n")}
        </pre>
      )}
    </>
  );
}

export function Log({ conn, app, deployment }: { conn: string; app: string; deployment: string }): JSX.Element {
  const [open, setOpen] = useState(false);
  return (
    <details id="log" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Driver log of {deployment}</summary>
      {open && <Lines key={deployment} path={appPath(conn, app, "deployments", deployment, "log")} />}
    </details>
  );
}
