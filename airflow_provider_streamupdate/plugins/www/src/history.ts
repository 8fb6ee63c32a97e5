/** What the charts draw: what the drivers wrote down, and after that a point an answer while the page is open. */

import type { AppDocument, Maybe, Past } from "./api";

export interface Point {
  at: number; // seconds since the epoch
  in: Maybe<number>;
  out: Maybe<number>;
  lag: Maybe<number>;
  batch: Maybe<number>;
  bytes: Maybe<number>;
  watermarkAge: Maybe<number>;
  rows: Record<string, Maybe<number>>;
}

const KEPT = 1800;
const GAP = 3; // so many points missing are a time in which nothing ran

const total = (values: Maybe<number>[]): Maybe<number> => {
  const known = values.filter((value): value is number => value !== null);
  return known.length ? known.reduce((a, b) => a + b, 0) : null;
};

const most = (values: Maybe<number>[]): Maybe<number> => values.reduce((a, b) => (b === null ? a : Math.max(a ?? b, b)), null);

/** Seconds by which a watermark is behind; Spark says 1970 for none. */
function age(watermark: Maybe<string>, at: number): Maybe<number> {
  if (!watermark || watermark.startsWith("1970-01-01T00:00:00")) return null;
  return Math.max(0, at - Date.parse(watermark) / 1000);
}

/** The points of the page's own time. */
export class Live {
  points: Point[] = [];

  add(app: AppDocument): void {
    const { status } = app;
    const at = status ? Date.parse(status.heartbeat_at) / 1000 : 0;
    if (!status || at <= (this.points.at(-1)?.at ?? 0)) return;
    const queries = Object.entries(status.queries);
    const of = (value: (query: (typeof queries)[0][1]) => Maybe<number> | undefined): Maybe<number>[] => queries.map(([, q]) => value(q) ?? null);
    this.points = [
      ...this.points.slice(1 - KEPT),
      {
        at,
        in: total(of((q) => q.input_rows_per_second)),
        out: null,
        lag: total(of((q) => q.lag)),
        batch: most(of((q) => q.batch_seconds)),
        bytes: total(of((q) => q.state_bytes)),
        watermarkAge: most(of((q) => age(q.watermark, at))),
        rows: Object.fromEntries(queries.flatMap(([name, q]) => Object.entries(q.state_rows).map(([stage, rows]) => [`${name}/${stage}`, rows]))),
      },
    ];
  }
}

const NO_ROWS: Record<string, number> = {};
const nothing = (at: number): Point => ({ at, in: null, out: null, lag: null, batch: null, bytes: null, watermarkAge: null, rows: NO_ROWS });

/** What was written down, each point at the end of its minute or hour, or now. */
function written(past: Past): Point[] {
  const now = Date.now() / 1000;
  return past.at.map((at, n) => ({
    at: Math.min(at + past.each, Math.max(at, now)),
    in: past.in[n]!,
    out: past.out[n]!,
    lag: past.lag[n]!,
    batch: past.batch[n]!,
    bytes: past.bytes[n]!,
    watermarkAge: past.watermark_age[n]!,
    rows: Object.fromEntries(Object.entries(past.rows).map(([stage, values]) => [stage, values[n]!])),
  }));
}

/** All points, with a gap where nothing was written down for a while. `live`: those of the page, for a view of minutes. */
export function joined(past: Maybe<Past>, live: Point[]): Point[] {
  const before = past ? written(past) : [];
  const last = before.at(-1)?.at ?? 0;
  const found = [...before, ...live.filter((point) => point.at > last)];
  const each = past?.each ?? 60;
  return found.flatMap((point, n) => {
    const previous = found[n - 1];
    return previous && point.at - previous.at > GAP * each ? [nothing(previous.at + each), point] : [point];
  });
}

/** When snapshots were taken. */
export const snapshotTimes = (app: AppDocument): number[] =>
  app.snapshots.flatMap((snapshot) => (snapshot.created_at ? [Date.parse(snapshot.created_at) / 1000] : []));

/** Where one deployment's batches end and the next one's begin. */
export function cutovers(app: AppDocument): { at: number; deployment: string }[] {
  return app.deployments
    .filter((deployment) => deployment.parent && deployment.first_commit_at)
    .map((deployment) => ({ at: Date.parse(deployment.first_commit_at!) / 1000, deployment: deployment.deployment }));
}
