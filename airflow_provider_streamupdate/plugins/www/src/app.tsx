/** One app. */

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";

import { Action, type Asked } from "./actions";
import { type AppDocument, appPath, ask, type HotStandby, interrupted, LEFT, type Me, type Need, type Update } from "./api";
import { Buttons, why } from "./buttons";
import { Changes, changes } from "./changes";
import { Charts } from "./charts";
import { Deployments } from "./deployments";
import { Differences } from "./difference";
import { Events } from "./events";
import { ago, seconds } from "./format";
import { Live } from "./history";
import { Word } from "./list";
import { Log } from "./log";
import { LABELS, Needs } from "./needs";
import { QueryPicture } from "./picture";
import { withFigures } from "./pictured";
import { usePolled } from "./polling";
import { Queries } from "./queries";
import { LastCheck } from "./report";
import { Requests } from "./requests";
import { Section } from "./section";
import { Snapshots } from "./snapshots";
import { Stages } from "./stages";
import { runningTask, taskName } from "./step";
import { Steps } from "./steps";
import { Timeline } from "./timeline";
import { UnderWay } from "./underway";

/** What takes over when the driver dies. */
function Standby({ of: standby }: { of: HotStandby }): JSX.Element {
  if (standby.took_over) return <span id="hot-standby">hot standby: none yet, the previous one took over</span>;
  return (
    <span id="hot-standby">
      hot standby {standby.deployment} <Word of={standby.state} />
      {standby.behind !== null && `, ${standby.behind} ${standby.behind === 1 ? "batch" : "batches"} behind`}
    </span>
  );
}

/** Why the button of a need cannot be used; null: it can. */
function noButton(need: Need, app: AppDocument, me: Me, ongoing: Update | undefined): string | null {
  if (need.button === "verify") return me.may_edit ? null : `you may not edit DAG ${me.update_dag_id}`;
  return need.button ? why(need.button, app, me, ongoing) : "there is none";
}

const asks = (need: Pick<Need, "button" | "about">): Asked | null => {
  if (need.button === "verify") return need.about ? { what: "verify", snapshot: need.about } : null;
  return need.button && { what: need.button };
};

function NeedButton({ need, no, act }: { need: Need; no: string | null; act: (asked: Asked | null) => void }): JSX.Element {
  return (
    <button type="button" disabled={no !== null} title={no ?? ""} onClick={() => act(asks(need))}>
      {LABELS[need.button!]}
    </button>
  );
}

/** What the list's button asked for, once: a page that is loaded again does not ask again. */
function asked(): Pick<Need, "button" | "about"> | null {
  const parameters = new URLSearchParams(location.search);
  const button = parameters.get("do");
  if (!button || !(button in LABELS)) return null;
  const found = { button: button as keyof typeof LABELS, about: parameters.get("about") };
  parameters.delete("do");
  parameters.delete("about");
  history.replaceState(null, "", `?${parameters.toString()}`);
  return found;
}

function LeftOut({ of }: { of: Record<string, number> }): JSX.Element | null {
  const older = Object.entries(of).filter(([, count]) => count > 0);
  if (older.length === 0) return null;
  return (
    <p class="quiet" id="left-out">
      Only the latest are shown; not shown: {older.map(([name, count]) => `${count} ${name}`).join(", ")}.
    </p>
  );
}

/** `alone`: as a tab, without the way back to the list. */
export function AppPage({ conn, app: name, alone }: { conn: string; app: string; alone?: boolean }): JSX.Element {
  const live = useMemo(() => new Live(), []);
  const { document: app, error, again } = usePolled<AppDocument>(
    appPath(conn, name),
    () => 2000,
    (seen) => live.add(seen),
  );
  const [me, setMe] = useState<Me | null>(null);
  const [act, setAsked] = useState<Asked | null>(null);
  const [wanted] = useState(asked);
  const [said, setSaid] = useState<string | null>(null);
  useEffect(() => {
    ask<Me>("api/me").then(setMe, () => setMe(null));
  }, []);
  const loaded = app !== null && me !== null;
  useEffect(() => {
    if (!loaded || !wanted) return;
    const need = { ...wanted, kind: "", severity: "", reason: "", help: "", since: null, command: null };
    if (noButton(need, app, me, undefined) === null) setAsked(asks(need));
  }, [loaded]);
  const back = !alone && <a href="?">Streaming apps</a>;
  if (!app) {
    return (
      <>
        <header>
          <h1>
            {back} {name}
          </h1>
        </header>
        {error ? <p class="problem">{error}</p> : <p class="quiet">Loading…</p>}
      </>
    );
  }
  const current = app.deployments.find((deployment) => deployment.current);
  const underWay = app.updates.find((update) => update.outcome === null);
  const following = app.runs.find((run) => run.deployment === underWay?.new && run.state === "running");
  const left = interrupted(app) && !following;
  const last = changes(app).at(-1);
  const request = following && app.requests.find((one) => one.dag_id === following.dag_id && one.run_id === following.run_id);
  const task = runningTask(request);
  const asksPerson = task !== undefined && taskName(task) === "approve";
  const ongoing = underWay && !left && [underWay.old, underWay.new].includes(current?.deployment ?? "") ? underWay : undefined;
  const comes = (ongoing && app.report?.deployment === ongoing.new && app.report.picture) || null;
  // what the driver reports is about the version that runs, which is the old one of `comes`
  const running = comes ? app.current?.deployment !== ongoing?.new : true;
  const shown = comes ?? app.picture;
  const pictured = shown && running ? withFigures(shown, app) : shown;
  const edits = me?.may_edit ?? false;
  return (
    <>
      <header>
        <h1>
          {back} {app.app}
        </h1>
        <Word of={app.state} />
        <span>
          {app.current ? `deployment ${app.current.deployment}, epoch ${app.current.epoch}` : "no deployment"}
        </span>
        <span class="quiet">heartbeat {ago(app.status?.heartbeat_at)}</span>
        {app.hot_standby && <Standby of={app.hot_standby} />}
        {last && !underWay && (
          <span class="quiet" id="last-change">
            {last.how === "rollback" ? `from ${last.from} to ${last.to}: ` : `last update, to ${last.to}: `}
            <Word of={last.outcome} /> {ago(last.ended_at ?? last.started_at)}
            {last.pause !== null && `, pause ${seconds(last.pause)}`}
          </span>
        )}
      </header>
      <LeftOut of={app.left_out ?? {}} />
      {me && <Buttons app={app} me={me} ongoing={ongoing} act={setAsked} />}
      <div id="problems" role="alert">
        {error && <p class="problem">{error}</p>}
        {edits && me!.missing_dags.length > 0 && (
          <p class="problem" id="missing-dags">
            Airflow has no DAG {me!.missing_dags.join(", ")}: streamupdate init-dags puts the files into the DAGs folder. Until then the
            buttons that need them cannot be used.
          </p>
        )}
        <div id="needs">
          <Needs
            needs={app.needs.filter((need) => !following || !(asksPerson ? [...LEFT, "update-stuck"] : LEFT).includes(need.kind))}
            button={(need) => need.button && me && <NeedButton need={need} no={noButton(need, app, me, ongoing)} act={setAsked} />}
          />
        </div>
        {app.status?.error && <p class="problem">{app.status.error}</p>}
      </div>
      <div id="live" role="status">
        {said && <p class="said">{said}</p>}
        <Requests app={app} me={me} besides={ongoing && request?.run_id} />
        {ongoing && <UnderWay update={ongoing} run={following} request={request} />}
      </div>
      {ongoing && (
        <Section title="Update under way">
          <Steps app={app} update={ongoing} request={request} review={null} />
        </Section>
      )}
      <Charts app={app} live={live.points} />
      <Queries app={app} />
      {pictured && (
        <Section title="Picture">
          {comes && ongoing && <p>The update to {ongoing.new}: what runs, and what comes.</p>}
          <QueryPicture key={comes ? ongoing?.new : app.current?.deployment} picture={pictured} />
        </Section>
      )}
      {edits && current && <Log conn={conn} app={name} deployment={current.deployment} />}
      <Section title="Timeline">
        <Timeline app={app} />
      </Section>
      <Stages app={app} />
      <LastCheck app={app} pictured={comes !== null} />
      <Differences app={app} />
      <Snapshots app={app} act={edits ? setAsked : null} />
      <Section title="Updates and rollbacks">
        <Changes app={app} edits={edits} />
      </Section>
      <Deployments app={app} />
      <Events app={app} />
      {act && me && (
        <Action
          key={JSON.stringify(act)}
          app={app}
          me={me}
          asked={act}
          close={() => setAsked(null)}
          done={(text) => {
            setSaid(text);
            again();
          }}
        />
      )}
    </>
  );
}
