/** Rows of old and new names. */

import type { JSX } from "preact";

export type Rename = { from: string; to: string };

interface Props {
  renames: Rename[];
  set: (renames: Rename[]) => void;
}

/** Those that are filled in, as the update takes them. */
export function named(renames: Rename[]): Record<string, string> {
  const whole = renames.map(({ from, to }) => [from.trim(), to.trim()] as const).filter(([from, to]) => from || to);
  if (whole.some(([from, to]) => !from || !to)) throw new Error("a rename needs the old name and the new one");
  return Object.fromEntries(whole);
}

export function Renames({ renames, set }: Props): JSX.Element {
  const change = (n: number, part: Partial<Rename>): void => set(renames.map((one, m) => (m === n ? { ...one, ...part } : one)));
  return (
    <fieldset>
      <legend>Renames of stages and sources</legend>
      {renames.map(({ from, to }, n) => (
        <div class="rename" key={n}>
          <input aria-label={`Old name ${n + 1}`} placeholder="old: query/stage" value={from} onInput={(event) => change(n, { from: event.currentTarget.value })} />
          <span aria-hidden="true">→</span>
          <input aria-label={`New name ${n + 1}`} placeholder="new" value={to} onInput={(event) => change(n, { to: event.currentTarget.value })} />
          <button type="button" aria-label={`Remove rename ${n + 1}`} onClick={() => set(renames.filter((_, m) => m !== n))}>
            Remove
          </button>
        </div>
      ))}
      <button type="button" onClick={() => set([...renames, { from: "", to: "" }])}>
        Add a rename
      </button>
    </fieldset>
  );
}
