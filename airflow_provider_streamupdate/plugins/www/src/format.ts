/** Values as text. */

import type { Maybe } from "./api";

export const NOTHING = "–";

type Value<T> = Maybe<T> | undefined;

export function count(value: Value<number>): string {
  if (value === null || value === undefined) return NOTHING;
  return value.toLocaleString("en", { maximumFractionDigits: Math.abs(value) >= 100 ? 0 : 1 });
}

export function seconds(value: Value<number>): string {
  if (value === null || value === undefined) return NOTHING;
  if (value >= 120) return `${(value / 60).toFixed(1)} min`;
  return `${value.toFixed(value < 10 ? 2 : 1)} s`;
}

export function bytes(value: Value<number>): string {
  if (value === null || value === undefined) return NOTHING;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit ? value.toFixed(1) : value} ${units[unit]}`;
}

export function moment(value: Value<string>): string {
  return value ? new Date(value).toISOString().slice(0, 19).replace("T", " ") : NOTHING;
}

export function ago(value: Value<string>): string {
  if (!value) return NOTHING;
  const past = Math.max(0, (Date.now() - Date.parse(value)) / 1000);
  for (const [unit, length] of [
    ["d", 86400],
    ["h", 3600],
    ["min", 60],
  ] as const) {
    if (past >= 2 * length) return `${Math.round(past / length)} ${unit} ago`;
  }
  return `${Math.round(past)} s ago`;
}

/** States in which a driver lives. */
export const RUNNING = ["starting", "standby", "restoring", "running", "draining", "suspended"];

/** States of a driver that is gone although nobody asked it to end, or that seems so. */
export const DEAD = ["failed", "lost", "silent"];

const GOOD = ["running", "promoted", "carried", "compatible", "success", "migrated"];
const BAD = ["failed", "lost", "unreadable", "damaged", "refused", "not compatible"];
const BETWEEN = ["starting", "standby", "restoring", "draining", "suspended", "rolled-back", "ignored", "carried with loss"];

/** The colour class of a state, verdict or outcome. */
export function tone(word: Value<string>): string {
  if (!word) return "quiet";
  if (GOOD.includes(word)) return "good";
  if (BAD.includes(word)) return "bad";
  return BETWEEN.includes(word) || word.startsWith("under way") ? "between" : "quiet";
}
