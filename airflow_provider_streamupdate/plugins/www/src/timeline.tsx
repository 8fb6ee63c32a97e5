/** Deployments as lanes over time: a bar for each driver they have had, the snapshots on them, which state came from
 * where, and the rollbacks. */

import type { JSX } from "preact";

import type { AppDocument, Deployment } from "./api";
import { clockTime, moment, RUNNING, tone } from "./format";

const LANE = 34;
const LEFT = 130;
const WIDTH = 1000;
const RIGHT = 45; // half of the last time on the axis
const AXIS = 26;
const TICKS = 6;
const NAME = 16; // characters of a deployment's id that fit before its lane
const SHOWN = 12; // deployments, the newest

const at = (text: string | null | undefined): number => (text ? Date.parse(text) : NaN);

interface Bar {
  from: number;
  to: number;
  state: string;
  epoch: number | null;
}

/** The drivers a deployment has had; from its status where there are no events of it. One that was killed said nothing of its
 * end: the next driver of the app, which there is one of at a time, has begun by then. */
function bars(d: Deployment, now: number, starts: number[]): Bar[] {
  const alive = RUNNING.includes(d.state);
  const last = at(d.heartbeat_at);
  const found: Bar[] = d.runs.map((run, n) => {
    const newest = n === d.runs.length - 1;
    const said = at(run.to);
    const killed = !newest && RUNNING.includes(run.state ?? "");
    const next = killed ? (starts.find((start) => start > said) ?? said) : said;
    const ended = newest ? (alive ? now : Math.max(said, Number.isNaN(last) ? 0 : last)) : next;
    return { from: at(run.from), to: ended, state: newest ? d.state : killed ? "lost" : (run.state ?? "lost"), epoch: run.epoch };
  });
  if (found.length) return found;
  const from = at(d.started_at ?? d.submitted_at);
  return [{ from, to: Math.max(from, alive ? now : Number.isNaN(last) ? from : last), state: d.state, epoch: d.epoch }];
}

/** Round times for the axis, at most TICKS of them. */
function ticks(first: number, end: number): number[] {
  const steps = [1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400].map((seconds) => seconds * 1000);
  let step = steps.find((one) => (end - first) / one <= TICKS) ?? 86_400_000;
  while ((end - first) / step > TICKS) step *= 2;
  const found = [];
  for (let time = Math.ceil(first / step) * step; time <= end; time += step) found.push(time);
  return found;
}

export function Timeline({ app }: { app: AppDocument }): JSX.Element | null {
  const lanes = app.deployments.slice(-SHOWN);
  if (!lanes.length) return null;
  const now = Date.now();
  const starts = app.deployments.flatMap((d) => d.runs.map((run) => at(run.from))).sort((a, b) => a - b);
  const spans = lanes.map((d) => bars(d, now, starts));
  const snapshots = app.snapshots.filter((s) => s.created_at && lanes.some((d) => d.deployment === s.deployment));
  const first = Math.min(...spans.flat().map((bar) => bar.from), ...snapshots.map((s) => at(s.created_at)));
  const end = Math.max(now, ...spans.flat().map((bar) => bar.to));
  const x = (time: number): number => LEFT + ((time - first) / Math.max(1, end - first)) * (WIDTH - LEFT - RIGHT);
  const y = (lane: number): number => 18 + lane * LANE;
  const laneOf = (deployment: string | null | undefined): number => lanes.findIndex((d) => d.deployment === deployment);
  const height = lanes.length * LANE + AXIS;
  const rollbacks = app.rollbacks.filter((r) => laneOf(r.left) >= 0 && laneOf(r.back_to) >= 0);
  return (
    <svg class="timeline" viewBox={`0 0 ${WIDTH} ${height}`} role="img" aria-label="Timeline of deployments, snapshots and rollbacks">
      <g class="axis">
        {ticks(first, end).map((time) => (
          <g key={time}>
            <line x1={x(time)} y1={4} x2={x(time)} y2={height - AXIS + 4} />
            <text x={x(time)} y={height - 6} text-anchor="middle">
              {clockTime(time, end - first)}
            </text>
          </g>
        ))}
      </g>
      {lanes.map((d, lane) => {
        const origin = snapshots.find((s) => s.name === d.from_snapshot);
        const parent = laneOf(origin?.deployment ?? d.parent);
        const begins = spans[lane]![0]!.from;
        const source = origin ? x(at(origin.created_at)) : parent >= 0 ? x(Math.min(begins, spans[parent]!.at(-1)!.to)) : NaN;
        return (
          <g key={d.deployment}>
            <text x={4} y={y(lane) + 4} class={d.current ? "current" : ""}>
              {d.deployment.length > NAME ? `${d.deployment.slice(0, NAME - 1)}…` : d.deployment}
              <title>{d.deployment}</title>
            </text>
            {spans[lane]!.map((bar) => (
              <rect
                key={bar.from}
                x={x(bar.from)}
                y={y(lane) - 6}
                width={Math.max(4, x(bar.to) - x(bar.from))}
                height={12}
                rx={3}
                class={`bar ${tone(bar.state)}`}
              >
                <title>{`${d.deployment}, epoch ${bar.epoch ?? "–"}: ${bar.state}, ${moment(new Date(bar.from).toISOString())} to ${moment(new Date(bar.to).toISOString())}`}</title>
              </rect>
            ))}
            {parent >= 0 && parent !== lane && !Number.isNaN(source) && (
              <path d={`M${source},${y(parent)} C${source},${y(lane)} ${source},${y(lane)} ${x(begins)},${y(lane)}`} class="lineage" />
            )}
          </g>
        );
      })}
      {rollbacks.map((r) => (
        <path
          key={r.number}
          class="rollback"
          d={`M${x(at(r.started_at))},${y(laneOf(r.left))} L${x(at(r.ended_at ?? r.started_at))},${y(laneOf(r.back_to))}`}
        >
          <title>{`rolled back from ${r.left} to ${r.back_to}, ${moment(r.started_at)}${r.reason ? `: ${r.reason}` : ""}`}</title>
        </path>
      ))}
      {snapshots.map((s) => (
        <circle key={s.name} cx={x(at(s.created_at))} cy={y(laneOf(s.deployment))} r={4.5} class={`dot ${s.kind}`}>
          <title>{`snapshot ${s.name} (${s.kind}), ${moment(s.created_at)}`}</title>
        </circle>
      ))}
    </svg>
  );
}
