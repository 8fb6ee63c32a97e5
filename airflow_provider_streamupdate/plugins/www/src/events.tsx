/** What an app's driver did lately. */

import type { JSX } from "preact";

import type { AppDocument } from "./api";
import { moment } from "./format";
import { Section } from "./section";

function told(details: Record<string, unknown>, what: string): string {
  return Object.entries(details)
    .filter(([, value]) => value !== null)
    .map(([key, value]) => {
      const text = typeof value === "string" ? value : JSON.stringify(value);
      return key === what ? text : `${key} ${text}`;
    })
    .join(", ");
}

export function Events({ app }: { app: AppDocument }): JSX.Element {
  return (
    <Section title="Events">
      <ol class="events">
        {[...app.events].reverse().map(({ at, epoch, event: what, ...details }) => (
          <li key={`${at} ${what}`}>
            <time>{moment(at)}</time> epoch {epoch}: {what} {told(details, what)}
          </li>
        ))}
      </ol>
    </Section>
  );
}
