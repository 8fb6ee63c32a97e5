/** A document that stays fresh. */

import { useEffect, useRef, useState } from "preact/hooks";

import { ask } from "./api";

export interface Polled<T> {
  document: T | null;
  error: string | null;
  again: () => void;
}

/** Ask for `path` every `period` milliseconds while the page is visible; the last answer stays when one fails. */
export function usePolled<T>(path: string, period: (document: T) => number, seen?: (document: T) => void): Polled<T> {
  const [document, setDocument] = useState<T | null>(null);
  const [error, setError] = useState<string | null>(null);
  const again = useRef<() => void>(() => {});
  useEffect(() => {
    let over = false;
    let timer = 0;
    let last: T | null = null;
    const next = (): void => {
      timer = window.setTimeout(look, last ? period(last) : 5000);
    };
    const look = async (): Promise<void> => {
      clearTimeout(timer);
      if (window.document.hidden && last) return next();
      try {
        last = await ask<T>(path);
        if (over) return;
        seen?.(last);
        setDocument(last);
        setError(null);
      } catch (problem) {
        if (!over) setError((problem as Error).message);
      }
      if (!over) next();
    };
    again.current = () => void look();
    const shown = (): void => {
      if (!window.document.hidden) void look();
    };
    window.document.addEventListener("visibilitychange", shown);
    void look();
    return () => {
      over = true;
      clearTimeout(timer);
      window.document.removeEventListener("visibilitychange", shown);
    };
  }, [path]);
  return { document, error, again: () => again.current() };
}
