import { useState } from 'react';
import type { Search } from '@/lib/address';

/** A view that the user has named, in this browser. */
export interface SavedView {
  readonly name: string;
  readonly search: Search;
}

const mostViews = 50;

function read(key: string): readonly SavedView[] {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(key) ?? '[]');
    if (!Array.isArray(value)) return [];
    return value.filter(
      (one): one is SavedView =>
        typeof one === 'object' &&
        one !== null &&
        'name' in one &&
        typeof one.name === 'string' &&
        'search' in one,
    );
  } catch {
    return [];
  }
}

/** The views as they are now, by their key: also for who takes back a change after others. */
const held = new Map<string, readonly SavedView[]>();

/** Named views of a page, kept in the browser: at most 50. */
export function useViews(page: string) {
  const key = `weir-views-${page}`;
  const [views, setViews] = useState(() => held.get(key) ?? read(key));
  const write = (change: (now: readonly SavedView[]) => readonly SavedView[]): void => {
    const next = change(held.get(key) ?? views);
    held.set(key, next);
    setViews(next);
    try {
      localStorage.setItem(key, JSON.stringify(next));
    } catch {
      // Private windows may refuse; the views last as long as the page.
    }
  };
  return {
    views,
    save: (view: SavedView) =>
      write((now) => [...now.filter(({ name }) => name !== view.name), view].slice(-mostViews)),
    remove: (name: string) => write((now) => now.filter((view) => view.name !== name)),
  };
}
