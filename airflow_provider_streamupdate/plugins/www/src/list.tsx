/** All apps. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import type { AppList, ListedApp } from "./api";
import { ago, count, RUNNING, seconds, tone } from "./format";
import { acting, LABELS, Needs } from "./needs";
import { usePolled } from "./polling";
import { type Column, Table } from "./table";

const FEW = 200;
const AT_ONCE = 1000;

export const Word = ({ of }: { of: string | null | undefined }): JSX.Element => (
  <span class={`word ${tone(of)}`}>{of ?? "–"}</span>
);

export const appLink = (conn: string, app: string): string =>
  `?${new URLSearchParams({ conn_id: conn, app }).toString()}`;

const outcome = (app: ListedApp): string | undefined =>
  app.last_update ? (app.last_update.outcome ?? `under way (${app.last_update.step})`) : undefined;

/** A figure of a driver that lives: what a dead one reported last is not what it does. */
const live = (a: ListedApp, value: number | null | undefined): number | null =>
  RUNNING.includes(a.state) ? (value ?? null) : null;

const COLUMNS: Column<ListedApp>[] = [
  { name: "Name", value: (a) => a.app, show: (a) => <a href={appLink(a.conn_id, a.app)}>{a.app}</a>, long: true },
  {
    name: "State",
    value: (a) => a.state,
    show: (a) => <Word of={a.state} />,
  },
  {
    name: "Deployment",
    value: (a) => a.deployment,
    show: (a) => (a.error ? <span class="bad">{a.error.message}</span> : (a.deployment ?? "–")),
    long: true,
  },
  { name: "Epoch", value: (a) => a.epoch, right: true },
  { name: "Rows/s in", value: (a) => live(a, a.rows_in_per_second), show: (a) => count(live(a, a.rows_in_per_second)), right: true },
  { name: "Rows/s processed", value: (a) => live(a, a.rows_per_second), show: (a) => count(live(a, a.rows_per_second)), right: true },
  { name: "Lag", title: "rows behind", value: (a) => live(a, a.lag), show: (a) => count(live(a, a.lag)), right: true },
  { name: "Batch", title: "duration of the last batch", value: (a) => live(a, a.batch_seconds), show: (a) => seconds(live(a, a.batch_seconds)), right: true },
  { name: "State rows", value: (a) => a.state_rows, show: (a) => count(a.state_rows), right: true },
  { name: "Heartbeat", value: (a) => a.heartbeat_at, show: (a) => ago(a.heartbeat_at), right: true },
  { name: "Last update", value: outcome, show: (a) => <Word of={outcome(a)} /> },
  { name: "Pause", title: "how long input waited for either version in the last update", value: (a) => a.last_update?.pause_seconds, show: (a) => seconds(a.last_update?.pause_seconds), right: true },
];

/** `only`: names of apps; null: all. */
export function List({ only }: { only: string[] | null }): JSX.Element {
  const [limit, setLimit] = useState(AT_ONCE);
  const path = only === null ? `api/apps?limit=${limit}` : "api/apps";
  const { document, error } = usePolled<AppList>(path, (list) => (list.apps.length > FEW ? 10_000 : 3000));
  const [filter, setFilter] = useState(sessionStorage.getItem("filter") ?? "");
  const [state, setState] = useState("");
  const apps = (document?.apps ?? []).filter((app) => only === null || only.includes(app.app));
  const states = [...new Set(apps.map((app) => app.state))].sort();
  const wanted = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = apps.filter((app) => {
    const text = `${app.app} ${app.state} ${app.needs.map((need) => need.kind).join(" ")} ${app.deployment ?? ""} ${app.conn_id} ${outcome(app) ?? ""}`.toLowerCase();
    return (!state || app.state === state) && wanted.every((word) => text.includes(word));
  });
  const several = (document?.connections.length ?? 0) > 1;
  const columns = several
    ? [...COLUMNS, { name: "Connection", value: (a: ListedApp) => a.conn_id }]
    : COLUMNS;
  const broken = (document?.connections ?? []).filter((connection) => connection.error);
  return (
    <>
      <header>
        <h1>Streaming apps</h1>
        <input
          type="search"
          placeholder="Filter"
          aria-label="Filter"
          value={filter}
          onInput={(event) => {
            sessionStorage.setItem("filter", event.currentTarget.value);
            setFilter(event.currentTarget.value);
          }}
        />
        <select aria-label="State" value={state} onChange={(event) => setState(event.currentTarget.value)}>
          <option value="">every state</option>
          {states.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
        <span class="quiet" id="shown" role="status">
          {document && `${shown.length === apps.length ? "" : `${shown.length} of `}${apps.length} app${apps.length === 1 ? "" : "s"}`}
        </span>
      </header>
      <div id="problems" role="alert">
        {error && <p class="problem">{error}</p>}
        {broken.map((connection) => (
          <p class="problem" key={connection.conn_id}>
            Connection {connection.conn_id}: {connection.error?.message}
          </p>
        ))}
        {document?.connections.length === 0 && (
          <p class="problem">There is no connection of type Stream Update; make one in Admin &gt; Connections.</p>
        )}
      </div>
      {!document && !error && <p class="quiet">Loading…</p>}
      {document && (document.total ?? 0) > document.apps.length && (
        <p class="quiet" id="left-out">
          The {document.apps.length} that need somebody most, of {document.total}.{" "}
          <button type="button" onClick={() => setLimit(limit + AT_ONCE)}>
            Show more
          </button>
        </p>
      )}
      {document && (
        <Table
          id="apps"
          columns={columns}
          rows={shown}
          rowKey={(app) => `${app.conn_id}/${app.app}`}
          by=""
          more={(app) =>
            app.needs.length > 0 && (
              <Needs
                needs={app.needs}
                approval={app.approval}
                button={(need) =>
                  need.button && (
                    <a class="button" href={acting(app.conn_id, app.app, need)}>
                      {LABELS[need.button]}
                    </a>
                  )
                }
              />
            )
          }
          empty={apps.length ? "No app matches the filter." : "No apps yet: submit one."}
        />
      )}
    </>
  );
}
