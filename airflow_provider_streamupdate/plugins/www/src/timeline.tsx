/** Deployments as bars over time, the snapshots on them, and which state came from where. */

import type { JSX } from "preact";

import type { AppDocument } from "./api";
import { moment, RUNNING, tone } from "./format";

const LANE = 34;
const LEFT = 130;
const WIDTH = 1000;
const SHOWN = 12; // deployments, the newest

const at = (text: string | null | undefined): number => (text ? Date.parse(text) : NaN);

export function Timeline({ app }: { app: AppDocument }): JSX.Element | null {
  const lanes = app.deployments.slice(-SHOWN);
  if (!lanes.length) return null;
  const now = Date.now();
  const spans = lanes.map((d) => {
    const from = at(d.started_at ?? d.submitted_at);
    const last = at(d.heartbeat_at);
    return { from, to: Math.max(from, Number.isNaN(last) ? from : RUNNING.includes(d.state) ? now : last) };
  });
  const snapshots = app.snapshots.filter((s) => s.created_at && lanes.some((d) => d.deployment === s.deployment));
  const first = Math.min(...spans.map((s) => s.from), ...snapshots.map((s) => at(s.created_at)));
  const end = Math.max(now, ...spans.map((s) => s.to));
  const x = (time: number): number => LEFT + ((time - first) / Math.max(1, end - first)) * (WIDTH - LEFT - 20);
  const y = (lane: number): number => 18 + lane * LANE;
  const laneOf = (deployment: string | null | undefined): number => lanes.findIndex((d) => d.deployment === deployment);
  return (
    <svg class="timeline" viewBox={`0 0 ${WIDTH} ${lanes.length * LANE + 8}`} role="img" aria-label="Timeline of deployments and snapshots">
      {lanes.map((d, lane) => {
        const span = spans[lane]!;
        const origin = snapshots.find((s) => s.name === d.from_snapshot);
        const parent = laneOf(origin?.deployment ?? d.parent);
        const source = origin ? x(at(origin.created_at)) : parent >= 0 ? x(spans[parent]!.to) : NaN;
        return (
          <g key={d.deployment}>
            <text x={4} y={y(lane) + 4} class={d.current ? "current" : ""}>
              {d.deployment.length > 18 ? `${d.deployment.slice(0, 17)}…` : d.deployment}
            </text>
            <rect x={x(span.from)} y={y(lane) - 6} width={Math.max(4, x(span.to) - x(span.from))} height={12} rx={3} class={`bar ${tone(d.state)}`}>
              <title>{`${d.deployment}: ${d.state}, ${moment(d.started_at ?? d.submitted_at)}${d.from_snapshot ? `, from snapshot ${d.from_snapshot}` : ""}`}</title>
            </rect>
            {parent >= 0 && parent !== lane && !Number.isNaN(source) && (
              <path d={`M${source},${y(parent)} C${source},${y(lane)} ${source},${y(lane)} ${x(span.from)},${y(lane)}`} class="lineage" />
            )}
          </g>
        );
      })}
      {snapshots.map((s) => (
        <circle key={s.name} cx={x(at(s.created_at))} cy={y(laneOf(s.deployment))} r={4.5} class={`dot ${s.kind}`}>
          <title>{`snapshot ${s.name} (${s.kind}), ${moment(s.created_at)}`}</title>
        </circle>
      ))}
    </svg>
  );
}
