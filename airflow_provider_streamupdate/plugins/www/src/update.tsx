/** The form that an update, or its check alone, is asked for with. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { type Agreed, Agreements, asAgree } from "./agreements";
import { type AppDocument, type Me, trigger } from "./api";
import { Dialog } from "./dialog";
import { named, type Rename, Renames } from "./renames";
import { offers } from "./report";

interface Props {
  app: AppDocument;
  me: Me;
  close: () => void;
  done: (said: string) => void;
}

/** What was shown and then deleted: it is left out of the new version. */
const deleted = (before: string, now: Record<string, unknown>, part: string): string[] =>
  Object.keys(JSON.parse(before) as object)
    .filter((key) => !(key in now))
    .map((key) => part + key);

const HIDDEN = ["***", "(hidden)"];

/** Settings to start from. What is hidden stays as it is, unless it is entered. */
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

function batches(text: string): number {
  if (!/^\d*$/.test(text.trim())) throw new Error("Rehearsal must be a whole number of batches, 0 for none");
  return Number(text.trim() || "0");
}

export function UpdateDialog({ app, me, close, done }: Props): JSX.Element {
  const current = app.deployments.find((deployment) => deployment.current);
  const params = shown(current?.application.params ?? {});
  const conf = shown(current?.application.conf ?? {});
  const hidden = [...params.hidden, ...conf.hidden];
  const [file, setFile] = useState("");
  const [parameters, setParameters] = useState(params.text);
  const [sparkConf, setSparkConf] = useState(conf.text);
  const [strategy, setStrategy] = useState(me.strategies[0]?.name ?? "");
  const [runBeside, setRunBeside] = useState("");
  const [rehearse, setRehearse] = useState("0");
  const [checkOnly, setCheckOnly] = useState(false);
  const [renames, setRenames] = useState<Rename[]>([]);
  const [agreed, setAgreed] = useState<Agreed>({ boxes: {}, others: "" });
  // as they were when it was opened: a box must not come or go under the pointer
  const [possible] = useState(() => offers(app));
  const chosen = me.strategies.find((one) => one.name === strategy);

  const act = async (): Promise<void> => {
    if (!file.trim()) throw new Error("enter the path of the new version's file, as the workers see it");
    const given = { params: object(parameters, "Parameters"), conf: object(sparkConf, "Spark configuration") };
    const unset = [...deleted(params.text, given.params, ""), ...deleted(conf.text, given.conf, "conf=")];
    const run = await trigger(me.update_dag_id, {
      app: app.app,
      application: file.trim(),
      parameters: given.params,
      spark_conf: given.conf,
      ...(unset.length ? { unset } : {}),
      strategy,
      rehearse: batches(rehearse),
      check_only: checkOnly,
      renames: named(renames),
      agree: asAgree(agreed, possible),
      ...(chosen?.runs_beside && runBeside.trim() ? { run_beside: runBeside.trim() } : {}),
    });
    done(`run ${run.dag_run_id} of DAG ${me.update_dag_id} was requested`);
  };

  return (
    <Dialog title={`Update ${app.app}`} verb={checkOnly ? "Start the check" : "Start the update"} close={close} act={act}>
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
      {hidden.length > 0 && <p class="quiet">Hidden, kept unless you enter new values: {hidden.join(", ")}</p>}
      <label>
        Strategy
        <select value={strategy} onChange={(event) => setStrategy(event.currentTarget.value)}>
          {me.strategies.map((one) => (
            <option key={one.name}>{one.name}</option>
          ))}
        </select>
      </label>
      <p class="quiet">{chosen?.summary}</p>
      {chosen?.runs_beside && (
        <label>
          Run beside for
          <input value={runBeside} placeholder="seconds or PT10M; empty: until it has caught up" onInput={(event) => setRunBeside(event.currentTarget.value)} />
        </label>
      )}
      <label>
        Rehearsal (batches, 0: none)
        <input type="number" min={0} value={rehearse} onInput={(event) => setRehearse(event.currentTarget.value)} />
      </label>
      <Renames renames={renames} set={setRenames} />
      <Agreements offers={possible} agreed={agreed} set={setAgreed} />
      <label class="box">
        <input type="checkbox" checked={checkOnly} onChange={(event) => setCheckOnly(event.currentTarget.checked)} />
        <span>Check only: write the report, change nothing</span>
      </label>
    </Dialog>
  );
}
