/** What the charts draw: a point an answer while the page is open, and before that the state rows of the snapshots. */

import type { AppDocument, Maybe } from "./api";

export interface Point {
  at: number; // seconds since the epoch
  deployment: string;
  in: Maybe<number>;
  done: Maybe<number>;
  lag: Maybe<number>;
  batch: Maybe<number>;
  rows: Record<string, number>;
}

const KEPT = 1800;

const total = (values: Maybe<number>[]): Maybe<number> => {
  const known = values.filter((value): value is number => value !== null);
  return known.length ? known.reduce((a, b) => a + b, 0) : null;
};

export class History {
  points: Point[] = [];
  private readonly key: string;

  constructor(conn: string, app: string) {
    this.key = `points ${conn}/${app}`;
    try {
      this.points = JSON.parse(sessionStorage.getItem(this.key) ?? "[]") as Point[];
    } catch {
      this.points = [];
    }
  }

  add(app: AppDocument): void {
    if (!this.points.length) this.points = saved(app);
    const { status, current } = app;
    const at = status ? Date.parse(status.heartbeat_at) / 1000 : 0;
    if (!status || !current || at <= (this.points.at(-1)?.at ?? 0)) return;
    const queries = Object.entries(status.queries);
    this.points.push({
      at,
      deployment: current.deployment,
      in: total(queries.map(([, q]) => q.input_rows_per_second)),
      done: total(queries.map(([, q]) => q.processed_rows_per_second)),
      lag: total(queries.map(([, q]) => q.lag)),
      batch: queries.reduce<Maybe<number>>((most, [, q]) => (q.batch_seconds === null ? most : Math.max(most ?? 0, q.batch_seconds)), null),
      rows: Object.fromEntries(queries.flatMap(([name, q]) => Object.entries(q.state_rows).map(([stage, rows]) => [`${name}/${stage}`, rows]))),
    });
    this.points = this.points.slice(-KEPT);
    try {
      sessionStorage.setItem(this.key, JSON.stringify(this.points));
    } catch {
      // it is full: the points live as long as the page
    }
  }
}

/** What the snapshots hold of the time before. */
function saved(app: AppDocument): Point[] {
  const points: Point[] = [];
  for (const snapshot of app.snapshots) {
    const rows: Record<string, number> = {};
    let at = 0;
    for (const [query, state] of Object.entries(snapshot.queries ?? {})) {
      for (const [stage, held] of Object.entries(state.state_rows)) rows[`${query}/${stage}`] = held;
      at = Math.max(at, state.committed_at ? Date.parse(state.committed_at) / 1000 : 0);
    }
    if (at && Object.keys(rows).length) {
      points.push({ at, deployment: snapshot.deployment ?? "", in: null, done: null, lag: null, batch: null, rows });
    }
  }
  return points.sort((a, b) => a.at - b.at).filter((point, n, all) => n === 0 || point.at > all[n - 1]!.at);
}

/** Where one deployment's batches end and the next one's begin. */
export function cutovers(app: AppDocument): { at: number; deployment: string }[] {
  return app.deployments
    .filter((deployment) => deployment.parent && deployment.first_commit_at)
    .map((deployment) => ({ at: Date.parse(deployment.first_commit_at!) / 1000, deployment: deployment.deployment }));
}
