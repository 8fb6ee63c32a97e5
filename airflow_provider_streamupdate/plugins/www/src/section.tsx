/** A part of the page under a title. */

import type { ComponentChildren, JSX } from "preact";

export function Section({ title, children }: { title: string; children: ComponentChildren }): JSX.Element {
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}
