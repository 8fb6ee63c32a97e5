/** What is asked before something is done. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

interface Props {
  title: string;
  verb: string;
  danger?: boolean;
  act: () => Promise<void>;
  close: () => void;
  children: ComponentChildren;
}

export function Dialog({ title, verb, danger, act, close, children }: Props): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const go = async (): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      await act();
      close();
    } catch (problem) {
      setError((problem as Error).message);
      setBusy(false);
    }
  };
  return (
    <dialog ref={dialog} onClose={close} aria-label={title}>
      <h2>{title}</h2>
      {children}
      <footer>
        <div role="alert">{error && <p class="problem">{error}</p>}</div>
        <button type="button" onClick={close}>
          Cancel
        </button>
        <button type="button" class={danger ? "danger" : "primary"} disabled={busy} onClick={() => void go()}>
          {verb}
        </button>
      </footer>
    </dialog>
  );
}
