/** What is known of a chosen node of a picture. */

import type { JSX } from "preact";

import type { PicturedNode } from "./api";
import { tone } from "./format";
import { figures, marked, title } from "./pictured";

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

export function NodeTold({ node, compared }: { node: PicturedNode; compared: boolean }): JSX.Element {
  const known = figures(node);
  const both = compared && !same(node);
  return (
    <>
      <p>
        <strong>{title(node)}</strong> {node.mark && <span class={`word ${tone(node.mark)}`}>{marked(node) || node.mark}</span>}
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
