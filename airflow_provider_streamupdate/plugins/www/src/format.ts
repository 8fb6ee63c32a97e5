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

const two = (number: number): string => String(number).padStart(2, "0");

/** A time in the user's own time zone, by the 24-hour clock. */
export function moment(value: Value<string>): string {
  if (!value) return NOTHING;
  const time = new Date(value);
  const day = `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
  return `${day} ${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
}

/** A time on an axis that spans so many milliseconds: as much of it as tells the ticks apart. */
export function clockTime(time: number, span: number): string {
  const text = moment(new Date(time).toISOString());
  if (span > 2 * 86_400_000) return text.slice(5, 16);
  return span > 600_000 ? text.slice(11, 16) : text.slice(11);
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

/** How long something takes or took: up to now while it has no end. */
export function elapsed(from: Value<string>, to: Value<string>): string {
  if (!from) return NOTHING;
  const until = to ? Date.parse(to) : Date.now();
  return seconds(Math.max(0, (until - Date.parse(from)) / 1000));
}

/** States in which a driver lives. */
export const RUNNING = ["starting", "standby", "restoring", "running", "draining", "suspended"];

/** States of a driver that is gone although nobody asked it to end, or that seems so. */
export const DEAD = ["failed", "lost", "stopped", "silent"];

const GOOD = ["running", "promoted", "carried", "compatible", "success", "migrated", "no problem"];
const BAD = ["failed", "lost", "stopped", "unreadable", "damaged", "refused", "not compatible", "too different", "not compared as asked", "critical"];
const BETWEEN = ["starting", "standby", "restoring", "draining", "suspended", "silent", "rolled-back", "rolled back", "ignored", "carried with loss", "nothing was compared", "warning"];

/** The colour class of a state, verdict or outcome. */
export function tone(word: Value<string>): string {
  if (!word) return "quiet";
  if (GOOD.includes(word)) return "good";
  if (BAD.includes(word)) return "bad";
  return BETWEEN.includes(word) || word.startsWith("under way") || word.startsWith("interrupted") ? "between" : "quiet";
}
