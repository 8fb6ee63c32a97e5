/** The words on and about the nodes of a picture. */

import type { AppDocument, Maybe, Picture, PicturedNode, PicturedQuery, QueryStatus } from "./api";
import { count, RUNNING } from "./format";

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
  const { lag, state_rows, batch_rows } = node.figures ?? {};
  return [
    lag != null && `${told(lag)} rows behind`,
    state_rows != null && `${told(state_rows)} state rows`,
    batch_rows != null && `${told(batch_rows)} rows a batch`,
  ].filter((text): text is string => text !== false);
}

export function figures(node: PicturedNode): string[] {
  const rate = node.figures?.rows_per_second;
  return [...(rate == null ? [] : [`${count(rate)} rows/s`]), ...kept(node, count)];
}

/** What the driver reports of a node. */
function reported(node: PicturedNode, query: QueryStatus, alive: boolean): PicturedNode["figures"] {
  if (node.kind === "stage") return { state_rows: query.state_rows[node.name] };
  if (!alive || node.kind === "steps") return {};
  if (node.kind === "sink") return { batch_rows: query.figures.at(-1)?.rows_out };
  return { rows_per_second: query.source_rates[node.name], lag: query.source_lag[node.name] };
}

/** The picture with what the current driver last reported. Of one that ended, only the state is still there. */
export function withFigures(picture: Picture, app: AppDocument): Picture {
  const alive = RUNNING.includes(app.state);
  const queries = picture.queries.map((query) => {
    const told = app.status?.queries[query.name];
    if (!told) return query;
    const { input_rows_per_second, processed_rows_per_second, lag, state_bytes } = told;
    const rates = alive ? [input_rows_per_second, processed_rows_per_second, lag] : [];
    const figures = { rows_per_second: rates[0] ?? null, processed_per_second: rates[1] ?? null, lag: rates[2] ?? null, state_bytes };
    return { ...query, figures, nodes: query.nodes.map((node) => ({ ...node, figures: reported(node, told, alive) })) };
  });
  return { ...picture, queries };
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
