/** What an app needs somebody for, with the reason and what helps. */

import type { JSX } from "preact";

import type { ListedApp, Need } from "./api";
import { moment } from "./format";
import { follow } from "./frame";
import { Word } from "./list";
import { runAddress } from "./requests";

export const LABELS: Record<NonNullable<Need["button"]>, string> = {
  restart: "Restart…",
  rollback: "Roll back…",
  snapshot: "Take a snapshot",
  verify: "Verify…",
};

interface Props {
  needs: Need[];
  approval?: ListedApp["approval"] | undefined;
  /** The button of a need that has one. */
  button: (need: Need) => JSX.Element | null;
}

export function Needs({ needs, approval, button }: Props): JSX.Element | null {
  if (!needs.length) return null;
  return (
    <ul class="needs">
      {needs.map((need) => (
        <li key={`${need.kind} ${need.reason}`} class={need.severity}>
          <Word of={need.severity} /> <strong>{need.kind}</strong>
          {need.since && <span class="quiet"> since {moment(need.since)}</span>}: {need.reason}. <span class="quiet">{need.help}</span>{" "}
          {need.kind === "update-waits" && approval ? (
            <a class="button" href={`${runAddress(approval.dag_id, approval.run_id)}/tasks/${encodeURIComponent(approval.task_id)}`} onClick={follow}>
              Approve or reject…
            </a>
          ) : (
            button(need)
          )}
        </li>
      ))}
    </ul>
  );
}

/** Where a button of the list leads: the app's page, which asks at once. */
export const acting = (conn: string, app: string, need: Need): string =>
  `?${new URLSearchParams({ conn_id: conn, app, do: need.button!, ...(need.button === "verify" ? { about: need.about! } : {}) }).toString()}`;
