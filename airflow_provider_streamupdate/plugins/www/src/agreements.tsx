/** What is agreed to: a box for each name that the last report gives, and room for others. */

import type { JSX } from "preact";

import type { Offer } from "./report";

export interface Agreed {
  /** Name -> the reason given with it; a name that is not agreed to is not in it. */
  boxes: Record<string, string>;
  others: string;
}

interface Props {
  offers: Offer[];
  agreed: Agreed;
  set: (agreed: Agreed) => void;
}

/** As the update takes them: ``name`` or ``name=reason``. */
export function asAgree({ boxes, others }: Agreed, offers: Offer[]): string[] {
  for (const { name, same } of offers) {
    if (same && name in boxes && !boxes[name]!.trim()) throw new Error(`say why ${name.replace(/:same$/, "")} means the same`);
  }
  const ticked = Object.entries(boxes).map(([name, reason]) => (reason.trim() ? `${name}=${reason.trim()}` : name));
  return [...ticked, ...others.split("\n").map((line) => line.trim()).filter(Boolean)];
}

export function Agreements({ offers, agreed, set }: Props): JSX.Element {
  const { boxes, others } = agreed;
  const tick = (name: string, on: boolean): void => {
    const { [name]: _, ...rest } = boxes;
    set({ others, boxes: on ? { ...rest, [name]: "" } : rest });
  };
  return (
    <fieldset>
      <legend>Agreements</legend>
      {!offers.length && <p class="quiet">The last report asks for none. A check only finds out which a new version needs.</p>}
      {offers.map(({ name, reason, same }) => (
        <div class="agreement" key={name}>
          <label class="box">
            <input type="checkbox" checked={name in boxes} onChange={(event) => tick(name, event.currentTarget.checked)} />
            <span>
              {name} <span class="quiet">{reason}</span>
            </span>
          </label>
          {same && name in boxes && (
            <input
              aria-label={`Why ${name}`}
              placeholder="why it means the same"
              value={boxes[name]}
              onInput={(event) => set({ others, boxes: { ...boxes, [name]: event.currentTarget.value } })}
            />
          )}
        </div>
      ))}
      <label>
        Other agreements, one a line
        <textarea rows={2} value={others} placeholder="query/stage" onInput={(event) => set({ boxes, others: event.currentTarget.value })} />
      </label>
    </fieldset>
  );
}
