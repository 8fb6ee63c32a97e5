/** The words on and about the nodes of a picture. */

import type { Maybe, PicturedNode, PicturedQuery } from "./api";
import { count } from "./format";

/** Which version: `only`, where there is one. */
export type Side = "old" | "new" | "only";

/** Beside each word, for those who see no colours; as the command line has them. */
const SIGNS: Record<string, string> = {
  carried: "=",
  migrated: "~",
  empty: "+",
  "carried with loss": "!",
  ignored: "-",
  refused: "x",
  changed: "~",
  new: "+",
  gone: "-",
  "not known": "?",
};

export const sign = (mark: string): string => SIGNS[mark] ?? "";

const verdict = (node: PicturedNode): string => (node.mark && node.mark !== "same" ? `${sign(node.mark)} ${node.mark}` : "");

const agreement = (node: PicturedNode): string => (node.agreement === "needed" ? "needs agreement" : (node.agreement ?? ""));

export const marked = (node: PicturedNode): string => [verdict(node), agreement(node)].filter(Boolean).join(", ");

export const title = (node: PicturedNode): string => (node.kind === "steps" ? "steps" : `${node.kind} ${node.name}`);

const few = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** A number that needs little room. */
export const short = (value: number): string => few.format(value);

/** What is known of it in numbers, but for the rows that arrive, which are beside the box. */
function kept(node: PicturedNode, told: (value: number) => string): string[] {
  const { lag, state_rows, batch_rows } = node.figures;
  return [
    lag !== undefined && `${told(lag)} rows behind`,
    state_rows !== undefined && `${told(state_rows)} state rows`,
    batch_rows !== undefined && `${told(batch_rows)} rows a batch`,
  ].filter((text): text is string => text !== false);
}

export function figures(node: PicturedNode): string[] {
  const rate = node.figures.rows_per_second;
  return [...(rate === undefined ? [] : [`${count(rate)} rows/s`]), ...kept(node, count)];
}

const of = (node: PicturedNode, side: Side): string[] => (side === "old" ? node.old : node.new) ?? [];

/** The three lines of a box: what it is called, what it is, its verdict (or, of what runs, its figures). */
export function lines(node: PicturedNode, side: Side): [string, string, Maybe<string>] {
  const what = of(node, side);
  const known = side === "new" ? [] : kept(node, short);
  const mark = verdict(node);
  if (node.kind === "steps") return [what[0] ?? "", what.length > 1 ? `and ${what.length - 1} more` : "", mark || null];
  const [form, more] = node.kind === "sink" ? [what[1], what[2]] : [what[0], what[1]];
  const name = node.kind === "sink" ? `sink ${what[0] ?? node.name}` : node.name;
  const detail = [...(mark ? known : []), form, node.kind === "stage" || known.length ? "" : more].filter(Boolean).join(", ");
  return [name, agreement(node) || detail, mark || known.join(", ") || null];
}

/** All that is seen of it, for those who do not see. */
export function label(query: PicturedQuery, node: PicturedNode, side: Side): string {
  const lane = side === "old" ? "old" : "new";
  const names = new Map(query.nodes.map((one) => [one.id, one.kind === "steps" ? of(one, side).join("; ") : title(one)]));
  const from = query.edges.filter((edge) => edge.end === node.id && edge[lane]).map((edge) => names.get(edge.start));
  const to = query.edges.filter((edge) => edge.start === node.id && edge[lane]).map((edge) => names.get(edge.end));
  return [
    title(node),
    ...of(node, side).slice(0, node.kind === "steps" ? undefined : 1),
    marked(node).slice(2),
    ...(side === "new" ? [] : figures(node)),
    from.length > 0 && `from ${from.join(" and ")}`,
    to.length > 0 && `to ${to.join(" and ")}`,
    node.reason,
  ]
    .filter(Boolean)
    .join(". ");
}
