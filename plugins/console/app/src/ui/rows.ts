// What rows of every table do: they open with a click or Enter, and are walked with j and k.
import { useMemo, useRef, type KeyboardEvent } from 'react';

/** `onOpen` as a function that stays the same, so that rows are not drawn anew with each new one. */
export function useOpen<T>(onOpen: ((row: T) => void) | undefined): ((row: T) => void) | undefined {
  const open = useRef(onOpen);
  open.current = onOpen;
  const opens = onOpen !== undefined;
  return useMemo(() => (opens ? (row: T) => open.current?.(row) : undefined), [opens]);
}

/** What opens a row. */
export function openEvents<T>(row: T, onOpen: ((row: T) => void) | undefined) {
  return {
    onClick: () => {
      // A text that was just marked is to be copied.
      if (getSelection()?.isCollapsed !== false) onOpen?.(row);
    },
    onKeyDown: (event: KeyboardEvent) => {
      if (event.key === 'Enter' && event.target === event.currentTarget) onOpen?.(row);
    },
  };
}

/** Rows that a key leads on: 1 to the next one, -1 to the one before, 0 for other keys. */
export function stepOf({ key }: KeyboardEvent): 1 | -1 | 0 {
  if (key === 'j' || key === 'ArrowDown') return 1;
  return key === 'k' || key === 'ArrowUp' ? -1 : 0;
}
