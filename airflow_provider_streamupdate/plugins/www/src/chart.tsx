/** A chart over time with the cut-overs and the snapshots marked. */

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";

import { clockTime, moment, NOTHING } from "./format";

const COLOURS = ["#017cee", "#e07b00", "#00a36c", "#b5519c", "#7a6ff0", "#c0392b", "#6b8e23", "#008b8b"];
const HEIGHT = 150;
const LINES = 4; // of labels
const LINE = 15;
const GAP = 4;
const DIGIT = 7.2; // px: a character of an axis' labels, at most

const TICK = 7; // px: a snapshot's mark, on the time axis
const SYNC = { sync: { key: "charts" } }; // the pointer is at one time in all charts

/** `told`: a value in words; `from`, `to`: of the time axis, which all charts share. */
interface Props {
  title: string;
  told: (value: number | null) => string;
  times: number[];
  series: { name: string; values: (number | null)[] }[];
  marks: { at: number; deployment: string }[];
  snapshots: number[];
  from: number;
  to: number;
}

/** A triangle on the time axis for each snapshot. */
function drawSnapshots(plot: uPlot, snapshots: number[], colour: string): void {
  const { ctx, bbox } = plot;
  const size = TICK * uPlot.pxRatio;
  ctx.save();
  ctx.fillStyle = colour;
  for (const at of snapshots) {
    const x = Math.round(plot.valToPos(at, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    const bottom = bbox.top + bbox.height;
    ctx.beginPath();
    ctx.moveTo(x - size / 2, bottom);
    ctx.lineTo(x + size / 2, bottom);
    ctx.lineTo(x, bottom - size);
    ctx.fill();
  }
  ctx.restore();
}

/** A line has no points, but one that stands alone would not be seen. */
function alone(plot: uPlot, series: number): number[] {
  const values = plot.data[series]!;
  const known = (n: number): boolean => values[n] !== null && values[n] !== undefined;
  return [...values.keys()].filter((n) => known(n) && !known(n - 1) && !known(n + 1));
}

/** A line for each cut-over. */
function drawMarks(plot: uPlot, marks: Props["marks"], colour: string): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.setLineDash([4, 4]);
  for (const mark of marks) {
    const x = Math.round(plot.valToPos(mark.at, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

/** The labels of the cut-overs, each in the first line where it lies over no other. One that finds no room is left out: the
 * chart's description and the timeline have it. */
function placeLabels(plot: uPlot, marks: Props["marks"]): void {
  for (const old of plot.over.querySelectorAll(".mark")) old.remove();
  const width = plot.over.clientWidth;
  const taken: [number, number][][] = Array.from({ length: LINES }, () => []);
  for (const mark of [...marks].sort((a, b) => b.at - a.at)) {
    const x = plot.valToPos(mark.at, "x");
    if (x < 0 || x > width) continue;
    const label = document.createElement("span");
    label.className = "mark";
    label.textContent = mark.deployment;
    plot.over.append(label);
    const size = label.offsetWidth;
    const left = x + GAP + size <= width ? x + GAP : x - GAP - size;
    const line = taken.findIndex((others) => others.every(([from, to]) => left + size + GAP < from || left > to + GAP));
    if (line < 0 || left < 0) {
      label.remove();
      continue;
    }
    taken[line]!.push([left, left + size]);
    label.style.left = `${left}px`;
    label.style.top = `${line * LINE}px`;
  }
}

export function Chart({ title, told, times, series, marks, snapshots, from, to }: Props): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const drawn = useRef({ marks, snapshots, from, to });
  drawn.current = { marks, snapshots, from, to };
  const theme = document.documentElement.dataset.theme;
  const names = series.map((one) => one.name).join("\n");
  const data = [times, ...series.map((one) => one.values)] as uPlot.AlignedData;
  useEffect(() => {
    const box = place.current!;
    const style = getComputedStyle(document.documentElement);
    const text = style.getPropertyValue("--quiet").trim();
    const line = style.getPropertyValue("--line").trim();
    const axis: uPlot.Axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    plot.current = new uPlot(
      {
        width: box.clientWidth || 300,
        height: HEIGHT,
        cursor: { drag: { x: true, y: false }, ...SYNC },
        scales: {
          x: { range: () => [drawn.current.from, drawn.current.to] },
          y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high || 1) * 1.08] },
        },
        axes: [
          { ...axis, space: (_, __, from, to) => (to - from > 2 * 86_400 ? 100 : 80), values: (_, ticks) => ticks.map((tick) => clockTime(tick * 1000, (drawn.current.to - drawn.current.from) * 1000)) },
          { ...axis, size: (_, labels) => Math.max(40, ...(labels ?? []).map((label) => label.length * DIGIT + 20)), values: (_, ticks) => ticks.map((tick) => told(tick)) },
        ],
        series: [
          { value: (_, at) => (at ? moment(new Date(at * 1000).toISOString()) : NOTHING) },
          ...series.map((one, n) => ({
            label: one.name,
            stroke: COLOURS[n % COLOURS.length],
            width: 1.5,
            spanGaps: false,
            points: { show: true, filter: alone, size: 4 },
            value: (_: uPlot, value: number | null) => told(value),
          })),
        ],
        hooks: {
          draw: [
            (u) => drawSnapshots(u, drawn.current.snapshots, text),
            (u) => drawMarks(u, drawn.current.marks, text),
            (u) => placeLabels(u, drawn.current.marks),
          ],
        },
      },
      data,
      box,
    );
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: box.clientWidth, height: HEIGHT }));
    resized.observe(box);
    return () => {
      resized.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [names, theme]);
  useEffect(() => plot.current?.setData(data), [times, marks.length, snapshots.length, Math.floor(from), Math.floor(to)]);
  const known = series.some((one) => one.values.some((value) => value !== null));
  const within = snapshots.filter((at) => at >= from && at <= to).length;
  const label = [
    title,
    ...marks.map((mark) => `cut-over to ${mark.deployment}`),
    ...(within ? [`${within} ${within === 1 ? "snapshot" : "snapshots"}`] : []),
  ].join(", ");
  return (
    <figure>
      <figcaption>{title}</figcaption>
      <div ref={place} role="img" aria-label={label} />
      {!known && <p class="quiet over">nothing reported yet</p>}
    </figure>
  );
}
