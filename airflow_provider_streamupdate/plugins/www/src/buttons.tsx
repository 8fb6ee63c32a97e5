/** The buttons of an app: those that cannot be used now say why. */

import type { JSX } from "preact";

import type { Asked } from "./actions";
import { type AppDocument, interrupted, type Me, type Update } from "./api";
import { DEAD, RUNNING } from "./format";
import { isOpen, what } from "./requests";

type Verb = "snapshot" | "update" | "restart" | "rollback";

/** The connection that the update DAG uses. */
const UPDATES = "streamupdate_default";
const LABELS: Record<Verb, string> = {
  snapshot: "Take a snapshot",
  update: "Update…",
  restart: "Restart…",
  rollback: "Roll back…",
};
/** The states of an app that can be deleted. */
const ENDED = ["cancelled", "finished"];
const VERBS = Object.keys(LABELS) as Verb[];

/** What stands in the way of starting a run of a DAG. */
function noRun(app: AppDocument, me: Me, dag: string): string | null {
  if (me.missing_dags.includes(dag)) return `Airflow has no DAG ${dag}`;
  if (!me.may_trigger[dag]) return `you may not trigger DAG ${dag}`;
  const open = app.requests.find((request) => request.dag_id === dag && isOpen(request));
  return open ? `${what(me, open).toLowerCase()} by run ${open.run_id} is under way` : null;
}

/** Why a button cannot be used now; null: it can. `ongoing`: an update that somebody works on. */
export function why(verb: Verb, app: AppDocument, me: Me, ongoing: Update | undefined): string | null {
  const current = app.deployments.find((deployment) => deployment.current);
  const busy = ongoing ? `the update to ${ongoing.new} is under way` : null;
  const none = current ? null : "the app has no deployment";
  switch (verb) {
    case "snapshot":
      if (!me.may_edit) return `you may not edit DAG ${me.update_dag_id}`;
      return none ?? (app.state === "running" ? null : `only a running driver can take one; this one is ${app.state}`);
    case "update":
      return (
        noRun(app, me, me.update_dag_id) ??
        (app.conn_id === UPDATES ? null : `DAG ${me.update_dag_id} uses connection ${UPDATES}; this app is on ${app.conn_id}`) ??
        none ??
        busy ??
        (app.state === "running" || interrupted(app) ? null : `only a running app can be updated; this one is ${app.state}`)
      );
    case "restart":
      if (noRun(app, me, me.restart_dag_id)) return noRun(app, me, me.restart_dag_id);
      if (none ?? busy) return none ?? busy;
      if (interrupted(app)) return `continue or roll back the update to ${interrupted(app)} first`;
      if (RUNNING.includes(app.state)) return `the driver is alive (${app.state})`;
      return DEAD.includes(app.state) ? null : `the app was stopped on request (${app.state})`;
    case "rollback":
      if (noRun(app, me, me.rollback_dag_id)) return noRun(app, me, me.rollback_dag_id);
      if (none) return none;
      return current?.parent || interrupted(app) ? null : `there is no deployment before ${current?.deployment ?? "it"}`;
  }
}

/** Reason -> the buttons that it holds for. */
function reasons(app: AppDocument, me: Me, ongoing: Update | undefined): Map<string, Verb[]> {
  const found = new Map<string, Verb[]>();
  for (const verb of VERBS) {
    const reason = why(verb, app, me, ongoing);
    if (reason) found.set(reason, [...(found.get(reason) ?? []), verb]);
  }
  return found;
}

interface Props {
  app: AppDocument;
  me: Me;
  ongoing: Update | undefined;
  act: (asked: Asked) => void;
}

export function Buttons({ app, me, ongoing, act }: Props): JSX.Element {
  const told = [...reasons(app, me, ongoing)];
  return (
    <div class="acts">
      <span class="buttons">
        {VERBS.map((verb) => {
          const n = told.findIndex(([, verbs]) => verbs.includes(verb));
          const reason = told[n]?.[0];
          const first = verb === (DEAD.includes(app.state) ? "restart" : "update");
          return (
            <span key={verb} title={reason}>
              <button
                type="button"
                class={first && !reason ? "primary" : ""}
                disabled={!!reason}
                aria-describedby={reason ? `why-${n}` : undefined}
                onClick={() => act({ what: verb })}
              >
                {LABELS[verb]}
              </button>
            </span>
          );
        })}
        {me.may_edit && ENDED.includes(app.state) && (
          <button type="button" class="danger" onClick={() => act({ what: "delete-app" })}>
            Delete…
          </button>
        )}
      </span>
      {told.map(([reason, verbs], n) => (
        <small key={reason} id={`why-${n}`} class="quiet why">
          {verbs.map((verb) => LABELS[verb].replace("…", "")).join(", ")}: {reason}
        </small>
      ))}
    </div>
  );
}
