import { useMemo, useRef } from 'react';

interface FocusReturn {
  readonly onOpenAutoFocus: () => void;
  readonly onCloseAutoFocus: (event: Event) => void;
}

/** Gives the focus back to what had it when a dialog without a button of its own opened. */
export function useFocusReturn(): FocusReturn {
  const before = useRef<Element | null>(null);
  return useMemo(
    () => ({
      onOpenAutoFocus: () => {
        before.current = document.activeElement;
      },
      onCloseAutoFocus: (event) => {
        event.preventDefault();
        // This comes a moment after the closing, when the next dialog may be open already, and somebody typing in it.
        if (document.activeElement !== document.body) return;
        if (before.current instanceof HTMLElement && before.current.isConnected) before.current.focus();
      },
    }),
    [],
  );
}
