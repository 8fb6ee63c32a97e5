import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { JSX } from "preact";

import { type AppList, ask, type Run } from "./api";
import { AppPage } from "./app";
import { followTheme } from "./frame";
import { List } from "./list";
import "uplot/dist/uPlot.min.css";
import "./style.css";

const asked = new URLSearchParams(location.search);

/** The tab of a DAG, a DAG run or a task instance: the apps that it updates. */
function Tab({ dag, run }: { dag: string; run: string | null }): JSX.Element {
  const [apps, setApps] = useState<string[] | null>(null);
  const [one, setOne] = useState<{ conn: string; app: string } | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    const query = new URLSearchParams(run ? { dag_id: dag, run_id: run } : { dag_id: dag });
    const look = async (): Promise<void> => {
      try {
        const found = await ask<{ apps: string[]; runs: Run[] }>(`api/context?${query.toString()}`);
        if (found.apps.length === 1) {
          const list = await ask<AppList>(`api/apps?search=${encodeURIComponent(found.apps[0]!)}`);
          const fitting = list.apps.filter((app) => app.app === found.apps[0]);
          if (fitting.length === 1) setOne({ conn: fitting[0]!.conn_id, app: fitting[0]!.app });
        }
        setApps(found.apps);
        setError(null);
      } catch (problem) {
        setError((problem as Error).message);
      }
    };
    void look();
    const timer = setInterval(() => void look(), 10_000);
    return () => clearInterval(timer);
  }, []);
  if (error) return <p class="problem">{error}</p>;
  if (apps === null) return <p class="quiet">Loading…</p>;
  if (one) return <AppPage key={`${one.conn}/${one.app}`} conn={one.conn} app={one.app} alone />;
  if (apps.length === 0) {
    return <p class="quiet">{run ? "This run" : "No run of this DAG"} has updated a streaming app yet.</p>;
  }
  return <List only={apps} />;
}

function Page(): JSX.Element {
  const [, setTheme] = useState(0);
  useEffect(() => followTheme(() => setTheme((n) => n + 1)), []);
  const app = asked.get("app");
  const conn = asked.get("conn_id");
  const dag = asked.get("dag_id");
  if (app && conn) return <AppPage conn={conn} app={app} />;
  if (dag) return <Tab dag={dag} run={asked.get("run_id")} />;
  return <List only={null} />;
}

render(<Page />, document.getElementById("page")!);
