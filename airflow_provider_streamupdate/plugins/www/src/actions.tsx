/** What an editor may do with an app. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { type AppDocument, appPath, ask, interrupted, type Me, trigger } from "./api";
import { Dialog } from "./dialog";
import { silentFunctions } from "./report";
import { UpdateDialog } from "./update";

export type Asked =
  | { what: "snapshot" | "update" | "rollback" | "restart" | "delete-app" }
  | { what: "verify" | "delete"; snapshot: string };

interface Props {
  app: AppDocument;
  me: Me;
  asked: Asked;
  close: () => void;
  done: (said: string) => void;
}

const fresh = (): string => `by-hand-${new Date().toISOString().slice(0, 19).replaceAll(/[-:]/g, "")}Z`;

export function Action({ app, me, asked, close, done }: Props): JSX.Element {
  const path = (...rest: string[]): string => appPath(app.conn_id, app.app, "snapshots", ...rest);
  const current = app.deployments.find((deployment) => deployment.current);
  // of an update that nobody works on, the version it was to bring in
  const stopped = interrupted(app);
  const left = stopped ?? current?.deployment;
  const before = stopped ? app.updates.find((update) => update.new === left)?.old : (app.way_back?.to ?? current?.parent);
  const failed = !stopped && app.way_back?.failure ? app.way_back : null;
  const [name, setName] = useState(fresh);
  const [to, setTo] = useState(failed?.healthy ?? "");
  const [later, setLater] = useState<string[]>([]);
  const [typed, setTyped] = useState("");
  const [keep, setKeep] = useState(false);
  const runsAgain = to || before;
  switch (asked.what) {
    case "snapshot":
      return (
        <Dialog
          title={`Take a snapshot of ${app.app}`}
          verb="Take it"
          close={close}
          act={async () => {
            await ask(path(), "POST", { name });
            done(`snapshot ${name} was requested`);
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
          <p>Reads every file and compares it with its checksum.</p>
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
          <p>This cannot be undone. A snapshot in use is not deleted.</p>
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
              deployment_id: left,
              conn_id: app.conn_id,
              ...(to ? { to } : {}),
              ...(later.length ? { later_ids: later } : {}),
            });
            done(`run ${run.dag_run_id} of DAG ${me.rollback_dag_id} was requested`);
          }}
        >
          {failed && (
            <div role="alert">
              <p class="bad">
                Cannot go back to {failed.to}: {failed.failure}
              </p>
              {[failed.healthy, failed.to].map(
                (version, n) =>
                  version && (
                    <label class="box" key={version}>
                      <input type="radio" name="to" checked={to === version} onChange={() => setTo(version)} />
                      <span>{n ? `${version}: run it once more` : `${version}: the last one that did not fail`}</span>
                    </label>
                  ),
              )}
              {!to && <p class="quiet">Choose one: without a choice the rollback is refused.</p>}
            </div>
          )}
          <p>
            {stopped
              ? `The update to ${left} is abandoned: ${runsAgain ?? "the version before"} continues, from where it was stopped if it was.`
              : `Deployment ${left} ends, and ${runsAgain ?? "the one before it"} runs again where it was stopped.`}{" "}
            Batches that {left} has written since then are computed again.
          </p>
          {silentFunctions(app.report).map((query) => (
            <label class="box" key={query}>
              <input
                type="checkbox"
                checked={later.includes(query)}
                onChange={({ currentTarget: { checked } }) =>
                  setLater(checked ? [...later, query] : later.filter((other) => other !== query))
                }
              />
              <span>
                The function of query {query} skips batch ids it has seen: use later ids.{" "}
                <span class="quiet">The app does not declare what the function does with them. If it skips them, recomputed batches would be lost.</span>
              </span>
            </label>
          ))}
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
            done(`run ${run.dag_run_id} of DAG ${me.restart_dag_id} was requested`);
          }}
        >
          <p>
            The driver of deployment {current?.deployment} is started again and continues from its own checkpoint, with
            the same code and parameters.
          </p>
        </Dialog>
      );
    case "delete-app":
      return (
        <Dialog
          title={`Delete app ${app.app}`}
          verb="Delete"
          danger
          close={close}
          act={async () => {
            await ask(appPath(app.conn_id, app.app), "DELETE", { name: typed, keep_snapshots: keep });
            done(`app ${app.app} was deleted`);
          }}
        >
          <p>
            Its deployments, their state and its records are removed{keep ? "." : ", and so are its snapshots."} This cannot be undone. Files of its sinks and apps forked from it are not touched.
          </p>
          <label class="box">
            <input type="checkbox" checked={keep} onChange={(event) => setKeep(event.currentTarget.checked)} />
            <span>Keep its snapshots, so that another app can start from them. The name stays taken then.</span>
          </label>
          <label>
            Type the app's name <input value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
          </label>
        </Dialog>
      );
    case "update":
      return <UpdateDialog app={app} me={me} close={close} done={done} />;
  }
}
