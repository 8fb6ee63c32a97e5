/** A query as a graph, from the sources to the sink: what runs, with its figures, or two versions, one below the other, with
 * the report's verdicts. */

import { Fragment, type JSX } from "preact";
import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";

import type { Maybe, Picture, PicturedNode, PicturedQuery, ReportItem } from "./api";
import { bytes, count, tone } from "./format";
import { GAP, HEIGHT, layoutOf, type Layout, type Point } from "./layout";
import { figures, label, lines, marked, short, sign, title as nodeTitle, type Side } from "./pictured";

const RING = 4; // px: around all boxes, for that of the one with the focus

interface Box extends Point {
  node: PicturedNode;
}

const isIn = (node: PicturedNode, side: Side): boolean => (side === "old" ? node.old : node.new) !== null;

const path = (points: Point[]): string => `M${points.map(({ x, y }) => `${x},${y}`).join(" L")}`;

interface LaneProps {
  query: PicturedQuery;
  side: Side;
  title: Maybe<string>;
  layout: Layout;
  chosen: Maybe<string>;
  choose: (id: string) => void;
  told: string;
}

/** One version of a query. The boxes are one stop of the tab key; the arrow keys go from one to the next. */
function Lane({ query, side, title, layout, chosen, choose, told }: LaneProps): JSX.Element | null {
  const place = useRef<HTMLDivElement>(null);
  const [current, setCurrent] = useState<Maybe<string>>(null);
  const { width } = layout;
  const boxes = query.nodes
    .filter((node) => isIn(node, side))
    .map((node): Box => ({ node, ...layout.boxes.get(node.id)! }))
    .sort((a, b) => a.x - b.x || a.y - b.y);
  if (!boxes.length) return null;
  const box = new Map(boxes.map((one) => [one.node.id, one]));
  const edges = query.edges.filter((edge) => edge[side === "old" ? "old" : "new"]);
  const stop = current && box.has(current) ? current : chosen && box.has(chosen) ? chosen : boxes[0]!.node.id;
  const move = (event: KeyboardEvent): void => {
    const at = boxes.findIndex((one) => one.node.id === stop);
    const ends: Record<string, number> = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: boxes.length - 1 };
    const next = boxes[ends[event.key] ?? -1];
    if (!next) return;
    event.preventDefault();
    place.current?.querySelectorAll<HTMLElement>(".node")[boxes.indexOf(next)]?.focus();
  };
  const height = Math.max(...boxes.map((one) => one.y)) + HEIGHT;
  const whole = Math.max(...[...layout.boxes.values()].map((one) => one.x)) + width;
  return (
    <div class="lane">
      {title && <h4>{title}</h4>}
      <div class="lane-scroll">
        <div ref={place} role="group" aria-label={`Query ${query.name}${title ? `, ${title.toLowerCase()}` : ""}`} class="boxes" style={{ width: `${whole}px`, height: `${height}px` }} onKeyDown={move}>
          <svg width={whole} height={height} aria-hidden="true">
            {edges.map((edge) => (
              <path key={`${edge.start} > ${edge.end}`} d={path(layout.line(edge.start, edge.end))} />
            ))}
          </svg>
          {boxes.map(({ node, x, y }) => {
            const [first, second, third] = lines(node, side);
            const rate = node.kind === "source" ? node.figures?.rows_per_second : null;
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
                {side !== "new" && rate != null && (
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
  if (!query.figures) return "";
  const { rows_per_second, processed_per_second, lag, state_bytes } = query.figures;
  return [
    rows_per_second !== null && `${count(rows_per_second)} rows/s in`,
    processed_per_second !== null && `${count(processed_per_second)} rows/s processed`,
    lag !== null && `${count(lag)} rows behind`,
    state_bytes !== null && `${bytes(state_bytes)} of state`,
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

const same = (node: PicturedNode): boolean => JSON.stringify(node.old) === JSON.stringify(node.new);

function Lines({ name, lines }: { name: string; lines: string[] }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {lines.map((line) => (
          <div key={line}>{line}</div>
        ))}
      </dd>
    </div>
  );
}

function NodeDetails({ node, compared }: { node: PicturedNode; compared: boolean }): JSX.Element {
  const known = figures(node);
  const both = compared && !same(node);
  return (
    <>
      <p>
        <strong>{nodeTitle(node)}</strong> {node.mark && <span class={`word ${tone(node.mark)}`}>{marked(node) || node.mark}</span>}
        {node.reason && `: ${node.reason}`}
      </p>
      <dl>
        {both && node.old && <Lines name="old" lines={node.old} />}
        {node.new && <Lines name={both ? "new" : "is"} lines={node.new} />}
        {known.length > 0 && <Lines name="now" lines={known} />}
      </dl>
    </>
  );
}

/** The node to begin with: one that the update is refused for, else one that asks for something. */
const first = (query: PicturedQuery): Maybe<string> =>
  (query.nodes.find((node) => node.mark === "refused") ?? query.nodes.find((node) => node.blocks) ?? null)?.id ?? null;

function OfQuery({ query, compared, room }: { query: PicturedQuery; compared: boolean; room: number }): JSX.Element {
  const told = useId();
  const [chosen, choose] = useState<Maybe<string>>(() => first(query));
  const node = query.nodes.find((one) => one.id === chosen);
  const layout = useMemo(() => layoutOf(query, room - 2 * RING), [query, room]);
  const lane = { query, layout, chosen, choose, told };
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
        {node && <NodeDetails node={node} compared={compared} />}
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
      <p class="quiet">Rows go from left to right. Choose a node for its details; the arrow keys go from one to the next.</p>
      {picture.notes.map((item) => (
        <Note key={`${item.thing} ${item.name} ${item.reason}`} item={item} />
      ))}
      {picture.queries.map((query) => (
        <OfQuery key={query.name} query={query} compared={picture.compared} room={room} />
      ))}
    </div>
  );
}
