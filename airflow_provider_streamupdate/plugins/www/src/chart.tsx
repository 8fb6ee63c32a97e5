/** A chart over time with the cut-overs marked. */

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

interface Props {
  title: string;
  unit: string;
  times: number[];
  series: { name: string; values: (number | null)[] }[];
  marks: { at: number; deployment: string }[];
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

/** At least a minute; for a single point uPlot itself would take years. */
function range(plot: uPlot, first: number | null, last: number | null): [number, number] {
  const end = (plot.data[0].length === 1 ? plot.data[0][0] : last) ?? 60;
  return [Math.min(first ?? 0, end - 60), end];
}

/** Milliseconds between the first tick and the last. */
const spanOf = (ticks: number[]): number => ((ticks.at(-1) ?? 0) - (ticks[0] ?? 0)) * 1000;

export function Chart({ title, unit, times, series, marks }: Props): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const drawn = useRef(marks);
  drawn.current = marks;
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
        cursor: { drag: { x: true, y: false } },
        scales: {
          x: { range },
          y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high || 1) * 1.08] },
        },
        axes: [
          { ...axis, space: (_, __, from, to) => (to - from > 2 * 86_400 ? 100 : 80), values: (_, ticks) => ticks.map((tick) => clockTime(tick * 1000, spanOf(ticks))) },
          { ...axis, size: (_, labels) => Math.max(40, ...(labels ?? []).map((label) => label.length * DIGIT + 20)), values: (_, ticks) => ticks.map((tick) => `${tick.toLocaleString("en")}${unit}`) },
        ],
        series: [
          { value: (_, at) => (at ? moment(new Date(at * 1000).toISOString()) : NOTHING) },
          ...series.map((one, n) => ({
            label: one.name,
            stroke: COLOURS[n % COLOURS.length],
            width: 1.5,
            spanGaps: true,
            points: { show: times.length < 30 },
          })),
        ],
        hooks: { draw: [(u) => drawMarks(u, drawn.current, text), (u) => placeLabels(u, drawn.current)] },
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
  useEffect(() => plot.current?.setData(data), [times.length, times.at(-1), marks.length]);
  const known = series.some((one) => one.values.some((value) => value !== null));
  const told = [title, ...marks.map((mark) => `cut-over to ${mark.deployment}`)].join(", ");
  return (
    <figure>
      <figcaption>{title}</figcaption>
      <div ref={place} role="img" aria-label={told} />
      {!known && <p class="quiet over">nothing reported yet</p>}
    </figure>
  );
}
