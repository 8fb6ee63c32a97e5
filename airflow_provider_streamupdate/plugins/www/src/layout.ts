/** Where the nodes of a query go: from the sources at the left to the sink at the right, by dagre. */

import { graphlib, layout } from "@dagrejs/dagre";

import type { PicturedQuery } from "./api";

export const HEIGHT = 60; // px: of a box
const BETWEEN = 12; // between two boxes, one above the other
export const GAP = 58; // between two columns: room for a rate
const NARROW = 112;
const WIDE = 210;

export interface Point {
  x: number;
  y: number;
}

export interface Layout {
  /** Of each box. */
  width: number;
  /** The upper left corner of a node's box, by its id. */
  boxes: Map<string, Point>;
  /** The line of an edge. */
  line: (start: string, end: string) => Point[];
}

/** Both versions share one layout, so that a node lies at one place in each. Boxes are as wide as the room allows. */
export function layoutOf(query: PicturedQuery, room: number): Layout {
  const wide = place(query, WIDE);
  const columns = new Set([...wide.boxes.values()].map((box) => box.x)).size;
  const width = Math.max(NARROW, Math.min(WIDE, (room - (columns - 1) * GAP) / columns));
  return width === WIDE ? wide : place(query, width);
}

function place(query: PicturedQuery, width: number): Layout {
  const graph = new graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: BETWEEN, ranksep: GAP, edgesep: BETWEEN });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of query.nodes) graph.setNode(node.id, { width, height: HEIGHT });
  for (const edge of query.edges) graph.setEdge(edge.start, edge.end);
  layout(graph);
  const boxes = new Map(query.nodes.map(({ id }) => [id, corner(graph.node(id) as Point, width)]));
  return { width, boxes, line: (start, end) => (graph.edge(start, end) as { points: Point[] }).points };
}

const corner = (middle: Point, width: number): Point => ({ x: middle.x - width / 2, y: middle.y - HEIGHT / 2 });
