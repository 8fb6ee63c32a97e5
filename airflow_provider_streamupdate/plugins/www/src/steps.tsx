/** An update over time: its steps to scale, the pause within them, what was found in each, and what it waits for. */

import type { JSX } from "preact";

import type { AppDocument, Maybe, Request, Review, Update } from "./api";
import { moment, seconds } from "./format";
import { taskName, updateStep } from "./step";
import { rooms } from "./scale";

const WIDTH = 1000;
const TOP = 20; // of the bars
const BAR = 22;
const LETTER = 7; // how wide one is, at most
const LEAST = 3; // of what must be seen however short it was

const at = (text: string): number => Date.parse(text);

interface Part {
  name: string;
  from: number;
  to: number;
  kind: "done" | "wait" | "now" | "back";
}

/** The time of an update from its beginning: a part for each step, for a person's approval, and for a rollback. */
export function parts(app: AppDocument, update: Update, request: Request | undefined): Part[] {
  const found: Part[] = [];
  let before = at(update.started_at);
  for (const step of update.steps) {
    const to = Math.max(before, at(step.at));
    found.push({ name: step.step, from: before, to, kind: "done" });
    before = to;
  }
  const rollback = app.rollbacks.find((one) => one.left === update.new);
  if (update.outcome === null) {
    found.push({ name: updateStep(update, request).doing, from: before, to: Math.max(before, Date.now()), kind: "now" });
  } else if (rollback) {
    const from = Math.max(before, at(rollback.started_at));
    if (from > before && !update.steps.some((step) => step.step === "promoted")) {
      found.push({ name: "failed", from: before, to: from, kind: "done" });
    }
    const to = rollback.ended_at ? at(rollback.ended_at) : from;
    if (!update.steps.some((step) => step.step === "promoted")) found.push({ name: "rolled back", from, to: Math.max(from, to), kind: "back" });
  }
  const asked = request?.tasks.find((task) => taskName(task) === "approve");
  return asked?.started_at ? found.flatMap((part) => split(part, at(asked.started_at!), asked.ended_at ? at(asked.ended_at) : Date.now())) : found;
}

/** A part without the wait in it, and the wait. */
function split(part: Part, from: number, to: number): Part[] {
  const [begin, end] = [Math.max(part.from, from), Math.min(part.to, to)];
  if (end <= begin) return [part];
  const wait: Part = { name: "waiting for an approval", from: begin, to: end, kind: "wait" };
  const rest = [{ ...part, to: begin }, wait, { ...part, from: end }];
  return rest.filter((one) => one === wait || one.to > one.from);
}

const long = (ms: number): string => {
  if (ms >= 2 * 86_400_000) return `${(ms / 86_400_000).toFixed(1)} d`;
  return ms >= 2 * 3_600_000 ? `${(ms / 3_600_000).toFixed(1)} h` : seconds(ms / 1000);
};

/** Where a moment lies; inside a part that is cut it is not to scale. */
function place(drawn: Part[], edges: number[], time: number): number {
  const n = Math.max(0, drawn.findIndex((part) => time <= part.to));
  const part = drawn[n]!;
  const passed = part.to > part.from ? (time - part.from) / (part.to - part.from) : 0;
  return edges[n]! + Math.min(1, Math.max(0, passed)) * (edges[n + 1]! - edges[n]!);
}

function Bars({ drawn, update }: { drawn: Part[]; update: Update }): JSX.Element {
  const room = rooms(drawn.map((part) => part.to - part.from));
  const edges = [0];
  for (const one of room) edges.push(edges.at(-1)! + one.width * WIDTH);
  const pause = paused(update);
  const height = TOP + BAR + (pause ? 18 : 6);
  const told = drawn.map((part) => `${part.name} ${long(part.to - part.from)}`).join(", ");
  const x = pause ? place(drawn, edges, pause.from) : 0;
  const width = pause ? Math.max(LEAST, place(drawn, edges, pause.to) - x) : 0;
  return (
    <svg class="update-steps" viewBox={`0 0 ${WIDTH} ${height}`} role="img" aria-label={`Steps to scale: ${told}${pause ? `; pause ${seconds(update.pause_seconds)}` : ""}`}>
      {drawn.map((part, n) => {
        const [left, right] = [edges[n]!, edges[n + 1]!];
        const name = `${part.name} ${long(part.to - part.from)}`;
        const fits = name.length * LETTER < right - left;
        const middle = (left + right) / 2;
        return (
          <g key={n}>
            <rect x={left} y={TOP} width={Math.max(1, right - left - 2)} height={BAR} rx={2} class={`part ${part.kind}${n % 2 ? " odd" : ""}`}>
              <title>{`${name}, until ${moment(new Date(part.to).toISOString())}`}</title>
            </rect>
            {room[n]!.cut && <path class="cut" d={`M${middle - 7},${TOP + BAR + 3} l6,${-BAR - 6} m6,0 l-6,${BAR + 6}`} />}
            {fits && (
              <text x={left} y={TOP - 6}>
                {name}
              </text>
            )}
          </g>
        );
      })}
      {pause && (
        <>
          <rect x={Math.min(x, WIDTH - width)} y={TOP - 2} width={width} height={BAR + 4} class="pause">
            <title>{`pause ${seconds(update.pause_seconds)}, from ${moment(update.paused_at)} on`}</title>
          </rect>
          <text x={Math.min(Math.max(x, 2), WIDTH - 110)} y={height - 3}>
            pause {seconds(update.pause_seconds)}
          </text>
        </>
      )}
    </svg>
  );
}

function paused(update: Update): Maybe<{ from: number; to: number }> {
  if (!update.paused_at || update.pause_seconds === null || update.pause_seconds <= 0) return null;
  return { from: at(update.paused_at), to: at(update.paused_at) + 1000 * update.pause_seconds };
}

/** The cut-over by itself: from a pause's length before the old version stopped working to one after the new one began. */
function CutOver({ update }: { update: Update }): JSX.Element | null {
  const pause = paused(update);
  if (!pause) return null;
  const length = pause.to - pause.from;
  const x = (time: number): number => ((time - pause.from + length) / (3 * length)) * WIDTH;
  const ends = update.steps.filter((step) => at(step.at) > pause.from - length && at(step.at) < pause.to + length);
  return (
    <svg class="update-steps" viewBox={`0 0 ${WIDTH} 62`} role="img" aria-label={`The pause: ${seconds(update.pause_seconds)} between ${update.old} and ${update.runs}`}>
      <rect x={0} y={20} width={x(pause.from)} height={14} class="part" />
      <rect x={x(pause.from)} y={18} width={x(pause.to) - x(pause.from)} height={18} class="pause" />
      <rect x={x(pause.to)} y={20} width={WIDTH - x(pause.to)} height={14} class="part odd" />
      <text x={x(pause.from) - 4} y={13} text-anchor="end">
        {short(update.old ?? "")} stopped
      </text>
      <text x={(x(pause.from) + x(pause.to)) / 2} y={13} text-anchor="middle">
        pause {seconds(update.pause_seconds)}
      </text>
      <text x={x(pause.to) + 4} y={13}>
        {short(update.runs)} processes
      </text>
      {ends.map((step, n) => (
        <g key={step.step}>
          <line x1={x(at(step.at))} x2={x(at(step.at))} y1={16} y2={40} class="mark-line" />
          {n === 0 && (
            <text x={Math.min(x(at(step.at)), WIDTH - 160)} y={54}>
              {ends.map((one) => one.step).join(", ")}
            </text>
          )}
        </g>
      ))}
    </svg>
  );
}

const short = (name: string): string => (name.length > 24 ? `${name.slice(0, 23)}…` : name);

/** What was found in a step, in words. */
function found(step: string, app: AppDocument, update: Update, review: Maybe<Review>): string[] {
  const report = app.report?.deployment === update.new ? app.report : null;
  switch (step) {
    case "plan":
      return [`strategy ${update.strategy}`];
    case "check": {
      const verdicts = Object.entries(review?.verdicts ?? {}).map(([verdict, count]) => `${count} ${verdict}`);
      const agreed = review?.agreed.length ? [`${review.agreed.length} agreed to`] : [];
      return verdicts.length ? [...verdicts, ...agreed] : report ? [report.outcome] : [];
    }
    case "prepare": {
      const compared = review?.compared ?? (app.difference?.deployment === update.new ? app.difference.outcome : null);
      return compared ? [`both versions on the same batches: ${compared}`] : [];
    }
    case "snapshot_and_cancel":
      return [...(update.snapshot ? [`snapshot ${update.snapshot}`] : []), ...(update.pause_seconds === null ? [] : [`pause ${seconds(update.pause_seconds)}`])];
    case "verify":
      return update.verified;
    default:
      return [];
  }
}

interface Props {
  app: AppDocument;
  update: Update;
  request: Request | undefined;
  review: Maybe<Review>;
}

export function Steps({ app, update, request, review }: Props): JSX.Element {
  const drawn = parts(app, update, request);
  const unplaced = update.pause_seconds !== null && !update.paused_at;
  return (
    <div class="update-timeline">
      <Bars drawn={drawn} update={update} />
      <CutOver update={update} />
      {unplaced && <p class="quiet">The pause was {seconds(update.pause_seconds)}. Where it lay is not known: an earlier release wrote this record.</p>}
      <ol class="step-list">
        {drawn.map((part, n) => (
          <li key={n} class={part.kind}>
            <strong>{part.name}</strong> {long(part.to - part.from)}
            {part.kind === "done" && <span class="quiet"> {found(part.name, app, update, review).join("; ")}</span>}
          </li>
        ))}
        {update.left.slice(1).map((step) => (
          <li key={step} class="quiet">
            {step}: pending
          </li>
        ))}
      </ol>
    </div>
  );
}
