/** How long something has been going on. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { elapsed } from "./format";

/** It ticks, and no screen reader is told so: `timer` is a live region that is off. */
export function Elapsed({ since }: { since: string }): JSX.Element {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = window.setInterval(() => tick((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  return <span role="timer">{elapsed(since, null)}</span>;
}
