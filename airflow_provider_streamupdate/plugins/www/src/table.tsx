/** A table whose columns sort it. */

import { type ComponentChildren, Fragment, type JSX } from "preact";
import { useState } from "preact/hooks";

export interface Column<T> {
  name: string;
  title?: string;
  value: (row: T) => string | number | null | undefined;
  show?: (row: T) => ComponentChildren;
  right?: boolean;
  /** It may hold paths and other words too long for a line. */
  long?: boolean;
  /** A day and a time, in two lines where there is no room for one. */
  time?: boolean;
}

const classOf = <T,>(column: Column<T>): string => (column.right ? "right" : column.long ? "long" : column.time ? "time" : "");

interface Props<T> {
  id: string;
  columns: Column<T>[];
  rows: T[];
  rowKey: (row: T) => string;
  /** The column sorted by at first; with a minus in front, downwards; empty: in the order of the rows, to which a third
   * press on a column leads back. */
  by: string;
  empty: string;
  rowClass?: (row: T) => string;
  /** What is shown below a row, over all columns. */
  more?: (row: T) => ComponentChildren;
}

const AT_FIRST = 200; // rows: more take a browser too long to show before they are asked for

function compare(a: string | number | null | undefined, b: string | number | null | undefined): number {
  const missing = Number(a === null || a === undefined) - Number(b === null || b === undefined);
  if (missing) return missing;
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a ?? "").localeCompare(String(b ?? ""), "en", { numeric: true });
}

export function Table<T>({ id, columns, rows, rowKey, by, empty, rowClass, more }: Props<T>): JSX.Element {
  const stored = sessionStorage.getItem(`sort ${id}`) ?? by;
  const [order, setOrder] = useState(stored);
  const down = order.startsWith("-");
  const named = columns.find((column) => column.name === order.replace(/^-/, ""));
  const sorted = named ?? (by ? columns[0] : undefined);
  const ordered = !sorted ? rows : [...rows].sort((a, b) => {
    const x = sorted.value(a);
    const y = sorted.value(b);
    const known = (value: unknown): boolean => value !== null && value !== undefined;
    return compare(x, y) * (down && known(x) && known(y) ? -1 : 1);
  });
  const [all, setAll] = useState(false);
  const shown = all ? ordered : ordered.slice(0, AT_FIRST);
  const sort = (name: string): void => {
    const now = order === name ? `-${name}` : order === `-${name}` && !by ? "" : name;
    sessionStorage.setItem(`sort ${id}`, now);
    setOrder(now);
  };
  return (
    <div class="scroll">
      <table id={id}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th
                key={column.name}
                class={column.right ? "right" : ""}
                title={column.title}
                aria-sort={column === sorted ? (down ? "descending" : "ascending") : "none"}
              >
                <button type="button" onClick={() => sort(column.name)}>
                  {column.name}
                  <span class="arrow">{column === sorted ? (down ? "▾" : "▴") : ""}</span>
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((row) => {
            const below = more?.(row);
            return (
              <Fragment key={rowKey(row)}>
                <tr class={`${rowClass?.(row) ?? ""}${below ? " opened" : ""}`}>
                  {columns.map((column) => (
                    <td key={column.name} class={classOf(column)}>
                      {column.show ? column.show(row) : (column.value(row) ?? "–")}
                    </td>
                  ))}
                </tr>
                {below && (
                  <tr class="more">
                    <td colSpan={columns.length}>{below}</td>
                  </tr>
                )}
              </Fragment>
            );
          })}
        </tbody>
      </table>
      {shown.length < rows.length && (
        <p>
          <button type="button" onClick={() => setAll(true)}>
            Show all {rows.length}
          </button>
        </p>
      )}
      {rows.length === 0 && <p class="quiet">{empty}</p>}
    </div>
  );
}
