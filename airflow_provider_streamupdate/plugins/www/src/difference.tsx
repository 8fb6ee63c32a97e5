/** What the versions of the last update made of the same batches, before the new one took over. */

import type { JSX } from "preact";

import type { AppDocument, ComparedFigure, ComparedRows, DifferentValue } from "./api";
import { count } from "./format";
import { Word } from "./list";
import { Section } from "./section";
import { type Column, Table } from "./table";

const FIGURES: Column<ComparedFigure>[] = [
  { name: "Query", value: (f) => f.query, long: true },
  { name: "Figure", value: (f) => f.figure, long: true },
  { name: "Old", value: (f) => f.old, show: (f) => figure(f.old), right: true },
  { name: "New", value: (f) => f.new, show: (f) => figure(f.new), right: true },
  { name: "Change", value: (f) => f.change },
  { name: "Allowed", value: (f) => f.allowed },
  { name: "Batches", value: (f) => f.batches },
];

const ROWS: Column<ComparedRows>[] = [
  { name: "Query", value: (r) => r.query, long: true },
  { name: "Batches", value: (r) => r.batches },
  { name: "Equal", value: (r) => r.equal, show: (r) => count(r.equal), right: true },
  { name: "Changed", value: (r) => r.changed, show: (r) => count(r.changed), right: true },
  { name: "Only in old", value: (r) => r.only_old, show: (r) => count(r.only_old), right: true },
  { name: "Only in new", value: (r) => r.only_new, show: (r) => count(r.only_new), right: true },
  { name: "Expected", title: "differences that the new version's author expects", value: (r) => r.expected, show: (r) => count(r.expected), right: true },
];

interface Sample extends DifferentValue {
  place: number;
}

const SAMPLES: Column<Sample>[] = [
  { name: "Place", title: "the order in which they were found", value: (s) => s.place, right: true },
  { name: "Query", value: (s) => s.query, long: true },
  { name: "Row", value: (s) => s.kind },
  { name: "Column", value: (s) => s.column, long: true },
  { name: "Old", value: (s) => s.old, long: true },
  { name: "New", value: (s) => s.new, long: true },
];

/** A number of rows, or seconds with their parts. */
const figure = (value: number): string => value.toLocaleString("en", { maximumFractionDigits: 3 });

export function Differences({ app }: { app: AppDocument }): JSX.Element | null {
  const found = app.difference;
  if (!found) return null;
  const samples = found.samples.map((sample, i) => ({ ...sample, place: i + 1 }));
  return (
    <Section title="Differences">
      <p>
        {found.deployment} beside the version before it, on the same batches: <Word of={found.outcome} />
      </p>
      {found.problems.map((problem) => (
        <p class="problem" key={problem}>
          {problem}
        </p>
      ))}
      {found.notes.length > 0 && <p class="quiet">{found.notes.join("; ")}</p>}
      <Table id="difference-figures" columns={FIGURES} rows={found.figures} rowKey={(f) => `${f.query} ${f.figure}`} by="Figure" empty="No figures were compared." />
      {found.rows.length > 0 && (
        <Table id="difference-rows" columns={ROWS} rows={found.rows} rowKey={(r) => r.query} by="Query" empty="" />
      )}
      {samples.length > 0 && (
        <Table id="difference-samples" columns={SAMPLES} rows={samples} rowKey={(s) => String(s.place)} by="Place" empty="" />
      )}
    </Section>
  );
}
