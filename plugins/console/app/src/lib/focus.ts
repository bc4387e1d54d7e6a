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
        if (before.current instanceof HTMLElement && before.current.isConnected) before.current.focus();
      },
    }),
    [],
  );
}
