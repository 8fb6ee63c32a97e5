/** What an editor may do with an app. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { type AppDocument, appPath, ask, type Me, trigger } from "./api";
import { Dialog } from "./dialog";

export type Asked =
  | { what: "snapshot" | "update" | "rollback" | "restart" }
  | { what: "verify" | "delete"; snapshot: string };

interface Props {
  app: AppDocument;
  me: Me;
  asked: Asked;
  close: () => void;
  done: (said: string) => void;
}

/** The connection that the update DAG uses. */
export const UPDATES = "streamupdate_default";
const HIDDEN = ["***", "(hidden)", "(redacted)"];
const STRATEGIES = ["standby", "restart", "in_flight"];

const fresh = (): string => `by-hand-${new Date().toISOString().slice(0, 19).replaceAll(/[-:]/g, "")}Z`;

/** Settings to start from: what is hidden has to be entered again. */
function shown(settings: Record<string, string>): { text: string; hidden: string[] } {
  const hidden = Object.keys(settings).filter((key) => HIDDEN.some((mark) => settings[key]!.includes(mark)));
  const kept = Object.fromEntries(Object.entries(settings).filter(([key]) => !hidden.includes(key)));
  return { text: JSON.stringify(kept, null, 1), hidden };
}

function object(text: string, what: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text || "{}");
    if (value && typeof value === "object" && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // told below
  }
  throw new Error(`${what} must be a JSON object such as {"key": "value"}`);
}

export function Action({ app, me, asked, close, done }: Props): JSX.Element {
  const path = (...rest: string[]): string => appPath(app.conn_id, app.app, "snapshots", ...rest);
  const current = app.deployments.find((deployment) => deployment.current);
  const [name, setName] = useState(fresh);
  const params = shown(current?.application.params ?? {});
  const conf = shown(current?.application.conf ?? {});
  const [file, setFile] = useState("");
  const [parameters, setParameters] = useState(params.text);
  const [sparkConf, setSparkConf] = useState(conf.text);
  const [strategy, setStrategy] = useState(STRATEGIES[0]!);
  switch (asked.what) {
    case "snapshot":
      return (
        <Dialog
          title={`Take a snapshot of ${app.app}`}
          verb="Take it"
          close={close}
          act={async () => {
            await ask(path(), "POST", { name });
            done(`snapshot ${name} was asked for`);
          }}
        >
          <label>
            Name <input value={name} onInput={(event) => setName(event.currentTarget.value)} />
          </label>
          <p class="quiet">The app runs on.</p>
        </Dialog>
      );
    case "verify":
      return (
        <Dialog
          title={`Verify snapshot ${asked.snapshot}`}
          verb="Verify"
          close={close}
          act={async () => {
            await ask(path(asked.snapshot, "verify"), "POST", {});
            done(`snapshot ${asked.snapshot} is being verified`);
          }}
        >
          <p>Every file of it is read and compared with its checksum.</p>
        </Dialog>
      );
    case "delete":
      return (
        <Dialog
          title={`Delete snapshot ${asked.snapshot}`}
          verb="Delete"
          danger
          close={close}
          act={async () => {
            await ask(path(asked.snapshot), "DELETE", {});
            done(`snapshot ${asked.snapshot} was deleted`);
          }}
        >
          <p>It cannot be brought back. One that is in use is refused.</p>
        </Dialog>
      );
    case "rollback":
      return (
        <Dialog
          title={`Roll back ${app.app}`}
          verb="Roll back"
          danger
          close={close}
          act={async () => {
            const run = await trigger(me.rollback_dag_id, {
              app: app.app,
              deployment_id: current?.deployment,
              conn_id: app.conn_id,
            });
            done(`run ${run.dag_run_id} of DAG ${me.rollback_dag_id} was asked for`);
          }}
        >
          <p>
            Deployment {current?.deployment} ends, and {current?.parent ?? "the one before it"} runs again where it was
            stopped. Batches that {current?.deployment} has written since then are computed a second time.
          </p>
        </Dialog>
      );
    case "restart":
      return (
        <Dialog
          title={`Restart ${app.app}`}
          verb="Restart"
          close={close}
          act={async () => {
            const run = await trigger(me.restart_dag_id, {
              app: app.app,
              deployment_id: current?.deployment,
              conn_id: app.conn_id,
            });
            done(`run ${run.dag_run_id} of DAG ${me.restart_dag_id} was asked for`);
          }}
        >
          <p>
            The driver of deployment {current?.deployment} is started again and goes on from its own checkpoint, with
            the code and parameters it has.
          </p>
        </Dialog>
      );
    case "update":
      return (
        <Dialog
          title={`Update ${app.app}`}
          verb="Start the update"
          close={close}
          act={async () => {
            if (!file.trim()) throw new Error("enter the path of the new version's file, as the workers see it");
            const run = await trigger(me.update_dag_id, {
              app: app.app,
              application: file.trim(),
              parameters: object(parameters, "Parameters"),
              spark_conf: object(sparkConf, "Spark configuration"),
              strategy,
            });
            done(`run ${run.dag_run_id} of DAG ${me.update_dag_id} was asked for`);
          }}
        >
          <label>
            Application file
            <input value={file} placeholder="/apps/v2.py" onInput={(event) => setFile(event.currentTarget.value)} />
          </label>
          <label>
            Parameters
            <textarea rows={4} value={parameters} onInput={(event) => setParameters(event.currentTarget.value)} />
          </label>
          <label>
            Spark configuration
            <textarea rows={3} value={sparkConf} onInput={(event) => setSparkConf(event.currentTarget.value)} />
          </label>
          <label>
            Strategy
            <select value={strategy} onChange={(event) => setStrategy(event.currentTarget.value)}>
              {STRATEGIES.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
          </label>
          {[...params.hidden, ...conf.hidden].length > 0 && (
            <p class="quiet">Hidden, to be entered again: {[...params.hidden, ...conf.hidden].join(", ")}</p>
          )}
        </Dialog>
      );
  }
}
