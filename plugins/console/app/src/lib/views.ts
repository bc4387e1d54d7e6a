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

/** Named views of a page, kept in the browser: at most 50. */
export function useViews(page: string) {
  const key = `weir-views-${page}`;
  const [views, setViews] = useState(() => read(key));
  const write = (next: readonly SavedView[]): void => {
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
      write([...views.filter(({ name }) => name !== view.name), view].slice(-mostViews)),
    remove: (name: string) => write(views.filter((view) => view.name !== name)),
  };
}
