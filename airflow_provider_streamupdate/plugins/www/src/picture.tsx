/** A query as a graph, from the sources to the sink: of what runs, with its figures, or of two versions, one below the other, with
 * the report's verdicts. */

import { Fragment, type JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";

import type { Edge, Maybe, Picture, PicturedNode, PicturedQuery, Place, ReportItem } from "./api";
import { bytes, count, tone } from "./format";
import { NodeTold } from "./picturednode";
import { label, lines, short, sign, type Side } from "./pictured";

const HEIGHT = 60; // px: of a box
const BETWEEN = 12; // and between two of them, one above the other
const GAP = 58; // between two columns: room for a rate
const RING = 4; // around all boxes, for that of the one with the focus
const NARROW = 112;
const WIDE = 210;

interface Box {
  node: PicturedNode;
  x: number;
  y: number;
}

const placeOf = (node: PicturedNode, side: Side): Maybe<Place> => (side === "old" ? node.old_at : node.new_at);

/** How wide boxes are, so that all columns fit if they can. */
function widthOf(columns: number, room: number): number {
  return Math.max(NARROW, Math.min(WIDE, (room - (columns - 1) * GAP) / columns));
}

/** From the right of a box to the left of another: at the height of the first one where nothing else lies, `early`: of the second. */
function path(from: Box, to: Box, width: number, early: boolean): string {
  const [x1, y1, x2, y2] = [from.x + width, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
  const turn = early ? x1 : x2 - GAP;
  const middle = turn + GAP / 2;
  return `M${x1},${y1} H${turn} C${middle},${y1} ${middle},${y2} ${turn + GAP},${y2} H${x2}`;
}

interface LaneProps {
  query: PicturedQuery;
  side: Side;
  title: Maybe<string>;
  room: number;
  chosen: Maybe<string>;
  choose: (id: string) => void;
  told: string;
}

/** One version of a query. The boxes are one stop of the tab key; the arrow keys go from one to the next. */
function Lane({ query, side, title, room, chosen, choose, told }: LaneProps): JSX.Element | null {
  const place = useRef<HTMLDivElement>(null);
  const [current, setCurrent] = useState<Maybe<string>>(null);
  const all = query.nodes.flatMap((node) => [node.old_at, node.new_at]).filter((at) => at !== null);
  const columns = Math.max(...all.map((at) => at.column)) + 1;
  const rows = Math.max(...query.nodes.map((node) => placeOf(node, side)?.row ?? 0)) + 1;
  const width = widthOf(columns, room - 2 * RING);
  const boxes = query.nodes
    .flatMap((node): Box[] => {
      const at = placeOf(node, side);
      return at ? [{ node, x: at.column * (width + GAP), y: at.row * (HEIGHT + BETWEEN) }] : [];
    })
    .sort((a, b) => a.x - b.x || a.y - b.y);
  if (!boxes.length) return null;
  const box = new Map(boxes.map((one) => [one.node.id, one]));
  const edges = query.edges.filter((edge) => edge[side === "old" ? "old" : "new"] && box.has(edge.start) && box.has(edge.end));
  const off = (edge: Edge): number => Math.abs(box.get(edge.start)!.y - box.get(edge.end)!.y);
  const nearest = (edge: Edge): boolean => edges.every((other) => other.start !== edge.start || off(edge) <= off(other));
  const stop = current && box.has(current) ? current : chosen && box.has(chosen) ? chosen : boxes[0]!.node.id;
  const move = (event: KeyboardEvent): void => {
    const at = boxes.findIndex((one) => one.node.id === stop);
    const ends: Record<string, number> = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: boxes.length - 1 };
    const next = boxes[ends[event.key] ?? -1];
    if (!next) return;
    event.preventDefault();
    place.current?.querySelectorAll<HTMLElement>(".node")[boxes.indexOf(next)]?.focus();
  };
  const height = rows * (HEIGHT + BETWEEN) - BETWEEN;
  const whole = columns * width + (columns - 1) * GAP;
  return (
    <div class="lane">
      {title && <h4>{title}</h4>}
      <div class="lane-scroll">
        <div ref={place} role="group" aria-label={`Query ${query.name}${title ? `, ${title.toLowerCase()}` : ""}`} class="boxes" style={{ width: `${whole}px`, height: `${height}px` }} onKeyDown={move}>
          <svg width={whole} height={height} aria-hidden="true">
            {edges.map((edge) => (
              <path key={`${edge.start} > ${edge.end}`} d={path(box.get(edge.start)!, box.get(edge.end)!, width, !nearest(edge))} />
            ))}
          </svg>
          {boxes.map(({ node, x, y }) => {
            const [first, second, third] = lines(node, side);
            const rate = node.kind === "source" ? node.figures.rows_per_second : undefined;
            return (
              <Fragment key={node.id}>
                <button
                  type="button"
                  class={`node of-${node.kind} ${tone(node.mark)} ${node.id === chosen ? "chosen" : ""}`}
                  style={{ left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${HEIGHT}px` }}
                  tabIndex={node.id === stop ? 0 : -1}
                  aria-label={label(query, node, side)}
                  aria-controls={told}
                  onFocus={() => {
                    setCurrent(node.id);
                    choose(node.id);
                  }}
                  onClick={() => choose(node.id)}
                >
                  <span class="name">{first}</span>
                  <span class="detail">{second}</span>
                  {third && <span class="mark-word">{third}</span>}
                </button>
                {side !== "new" && rate !== undefined && (
                  <span class="rate" aria-hidden="true" style={{ left: `${x + width}px`, top: `${y + HEIGHT / 2 - 17}px`, width: `${GAP}px` }}>
                    {short(rate)}/s
                  </span>
                )}
              </Fragment>
            );
          })}
        </div>
      </div>
    </div>
  );
}

function figuresOf(query: PicturedQuery): string {
  const { rows_per_second, processed_per_second, lag, state_bytes } = query.figures;
  return [
    rows_per_second !== undefined && `${count(rows_per_second)} rows/s in`,
    processed_per_second !== undefined && `${count(processed_per_second)} rows/s done`,
    lag !== undefined && `${count(lag)} rows behind`,
    state_bytes !== undefined && `${bytes(state_bytes)} of state`,
  ]
    .filter(Boolean)
    .join(", ");
}

export function Note({ item }: { item: ReportItem }): JSX.Element {
  const agreement = item.needs_agreement ? (item.agreed ? ", agreed" : ", needs agreement") : "";
  return (
    <p class="note">
      <span class={`word ${tone(item.verdict)}`}>
        {sign(item.verdict)} {item.verdict}
        {agreement}
      </span>{" "}
      {item.thing} {item.name}: {item.reason}
    </p>
  );
}

/** The node to begin with: one that the update is refused for, else one that asks for something. */
const first = (query: PicturedQuery): Maybe<string> =>
  (query.nodes.find((node) => node.mark === "refused") ?? query.nodes.find((node) => node.blocks) ?? null)?.id ?? null;

function OfQuery({ query, compared, room }: { query: PicturedQuery; compared: boolean; room: number }): JSX.Element {
  const told = useId();
  const [chosen, choose] = useState<Maybe<string>>(() => first(query));
  const node = query.nodes.find((one) => one.id === chosen);
  const lane = { query, room, chosen, choose, told };
  const change = query.change && query.change !== "same" ? ` (${query.change})` : "";
  const figures = figuresOf(query);
  return (
    <div class="picture">
      <h3>
        Query {query.name}
        {change}
        {figures && <span class="quiet figures">{figures}</span>}
      </h3>
      {compared ? (
        <>
          <Lane side="old" title={query.change === "new" ? null : "Old version"} {...lane} />
          <Lane side="new" title={query.change === "gone" ? null : "New version"} {...lane} />
        </>
      ) : (
        <Lane side="only" title={null} {...lane} />
      )}
      <div id={told} class="node-told">
        {node && <NodeTold node={node} compared={compared} />}
      </div>
      {query.notes.map((item) => (
        <Note key={`${item.thing} ${item.name} ${item.reason}`} item={item} />
      ))}
      {query.unknown.map((text) => (
        <p class="note quiet" key={text}>
          ? {text}
        </p>
      ))}
    </div>
  );
}

export function QueryPicture({ picture }: { picture: Picture }): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const [room, setRoom] = useState(880);
  useEffect(() => {
    const seen = new ResizeObserver(([entry]) => entry && setRoom(entry.contentRect.width));
    seen.observe(place.current!);
    return () => seen.disconnect();
  }, []);
  return (
    <div ref={place} class="pictures">
      <p class="quiet">Rows go from left to right. A node tells more when it is chosen; the arrow keys go from one to the next.</p>
      {picture.notes.map((item) => (
        <Note key={`${item.thing} ${item.name} ${item.reason}`} item={item} />
      ))}
      {picture.queries.map((query) => (
        <OfQuery key={query.name} query={query} compared={picture.compared} room={room} />
      ))}
    </div>
  );
}
