/** What an app does over time. */

import type { JSX } from "preact";

import type { AppDocument } from "./api";
import { Chart } from "./chart";
import { cutovers, type Point } from "./history";

export function Charts({ app, points }: { app: AppDocument; points: Point[] }): JSX.Element {
  const times = points.map((point) => point.at);
  const marks = cutovers(app);
  const stages = [...new Set(points.flatMap((point) => Object.keys(point.rows)))].sort();
  const line = (name: string, value: (point: Point) => number | null): { name: string; values: (number | null)[] } => ({
    name,
    values: points.map(value),
  });
  const common = { times, marks };
  return (
    <div class="charts">
      <Chart title="Rows per second" unit="" series={[line("in", (p) => p.in), line("processed", (p) => p.done)]} {...common} />
      {points.some((p) => p.lag !== null) && <Chart title="Lag (rows)" unit="" series={[line("lag", (p) => p.lag)]} {...common} />}
      <Chart title="Batch duration" unit=" s" series={[line("batch", (p) => p.batch)]} {...common} />
      <Chart title="State rows by stage" unit="" series={stages.map((stage) => line(stage, (p) => p.rows[stage] ?? null))} {...common} />
    </div>
  );
}
