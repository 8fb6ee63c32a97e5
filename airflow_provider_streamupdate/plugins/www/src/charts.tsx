/** What an app does over time. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import { type AppDocument, appPath, type Past } from "./api";
import { Chart } from "./chart";
import { bytes, count, seconds } from "./format";
import { cutovers, joined, type Point, snapshotTimes } from "./history";
import { usePolled } from "./polling";

const HOUR = 3600;
const RANGES = [
  { label: "Last hour", length: HOUR },
  { label: "Last day", length: 24 * HOUR },
  { label: "Last 90 days", length: 90 * 24 * HOUR },
] as const;
const REFRESH = 60_000; // ms: drivers write once a minute
const CHOSEN = "charts range";

export function Charts({ app, live }: { app: AppDocument; live: Point[] }): JSX.Element {
  const [length, setLength] = useState(() => Number(sessionStorage.getItem(CHOSEN)) || HOUR);
  const path = `${appPath(app.conn_id, app.app, "history")}?seconds=${length}`;
  const { document: past } = usePolled<Past>(path, () => REFRESH);
  const shown = past && past.seconds === length ? past : null;
  const points = useMemo(() => joined(shown, length === HOUR ? live : []), [shown, live, length]);
  const now = Date.now() / 1000;
  const times = useMemo(() => points.map((point) => point.at), [points]);
  const from = shown ? Math.max(now - length, Math.min(times[0] ?? now, now - 60)) : now - length;
  const marks = cutovers(app);
  const snapshots = snapshotTimes(app);
  const stages = useMemo(() => [...new Set(points.flatMap((point) => Object.keys(point.rows)))].sort(), [points]);
  const line = (name: string, value: (point: Point) => number | null): { name: string; values: (number | null)[] } => ({
    name,
    values: points.map(value),
  });
  const known = (value: (point: Point) => number | null): boolean => points.some((point) => value(point) !== null);
  const common = { times, marks, snapshots, from, to: now };
  const rates = [line("in", (p) => p.in), ...(known((p) => p.out) ? [line("out", (p) => p.out)] : [])];
  return (
    <section aria-label="Charts">
      <div class="ranges" role="group" aria-label="Time">
        {RANGES.map((range) => (
          <button
            key={range.length}
            type="button"
            aria-pressed={range.length === length}
            onClick={() => {
              sessionStorage.setItem(CHOSEN, String(range.length));
              setLength(range.length);
            }}
          >
            {range.label}
          </button>
        ))}
      </div>
      <div class="charts">
        <Chart title="Rows per second" told={count} series={rates} {...common} />
        {known((p) => p.lag) && <Chart title="Lag (rows)" told={count} series={[line("lag", (p) => p.lag)]} {...common} />}
        <Chart title="Batch duration" told={seconds} series={[line("batch", (p) => p.batch)]} {...common} />
        <Chart title="State rows by stage" told={count} series={stages.map((stage) => line(stage, (p) => p.rows[stage] ?? null))} {...common} />
        {known((p) => p.bytes) && <Chart title="State size" told={bytes} series={[line("bytes", (p) => p.bytes)]} {...common} />}
        {known((p) => p.watermarkAge) && (
          <Chart title="Watermark behind the clock" told={seconds} series={[line("behind", (p) => p.watermarkAge)]} {...common} />
        )}
      </div>
    </section>
  );
}
