import { useEffect, useState } from 'react';
import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query';
import { api, ApiError, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import type { Filters } from '@/lib/filters';
import { serverEvents } from '@/lib/live';
import { usePreferences } from '@/lib/preferences';
import { spanOf, timesOf, type Range } from '@/lib/time-range';

/** A page of the log as the API gives it. */
type LogPage = operations['logs.list']['responses'][200]['content']['application/json'];
/** An entry of a list. */
export type LogEntry = LogPage['data'][number];

/** What is looked for in the log. */
export interface LogView {
  readonly range: Range;
  readonly filters: Filters;
  readonly order: 'newest' | 'oldest';
}

/** Entries of the first page, which is waited for, and of those that follow while somebody scrolls. */
const firstEntries = 50;
const furtherEntries = 200;

/** Entries by pages; a view that is left takes its requests with it. */
export function useLogs({ range, filters, order }: LogView) {
  const { zone, words } = usePreferences();
  const include = words ? { include: 'preview' as const } : {};
  return useInfiniteQuery({
    queryKey: ['logs', range, range.name === 'custom' ? '' : zone, filters, order, words],
    queryFn: ({ pageParam, signal }) => {
      const place =
        pageParam === ''
          ? { ...timesOf(spanOf(range, zone)), order, page_size: firstEntries }
          : { cursor: pageParam, page_size: furtherEntries };
      return dataOf(
        api.GET('/logs', {
          params: { query: { ...filters, ...place, ...include } },
          signal,
        }),
      );
    },
    initialPageParam: '',
    getNextPageParam: ({ next_cursor: next }) => next,
    placeholderData: keepPreviousData,
    // A page that was read stays as it is: only the first one can have new entries.
    staleTime: 60_000,
    gcTime: 60_000,
  });
}

const mostLive = 500;

interface Tail {
  readonly entries: readonly LogEntry[];
  readonly skipped: number;
  readonly fault: string | undefined;
}

const noTail: Tail = { entries: [], skipped: 0, fault: undefined };

/** Entries as they come, the newest first, at most 500 of them; while `on`. */
export function useTail(on: boolean, filters: Filters): Tail {
  const [tail, setTail] = useState(noTail);
  const asked = JSON.stringify(filters);
  useEffect(() => {
    setTail(noTail);
    if (!on) return undefined;
    const stop = new AbortController();
    void follow(asked, stop.signal, setTail);
    return () => stop.abort();
  }, [on, asked]);
  return tail;
}

async function follow(
  asked: string,
  signal: AbortSignal,
  set: (change: (before: Tail) => Tail) => void,
): Promise<void> {
  const filters = JSON.parse(asked) as Record<string, string | number | boolean>;
  const query = new URLSearchParams(Object.entries(filters).map(([name, value]) => [name, String(value)]));
  // A busy gateway has many a second: they are shown together, ten times a second at most.
  let waiting: LogEntry[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  const show = (): void => {
    timer = undefined;
    const fresh = waiting.reverse();
    waiting = [];
    set((before) => ({
      ...before,
      fault: undefined,
      entries: merged(fresh, before.entries).slice(0, mostLive),
    }));
  };
  const say = (fault: string): void => set((before) => ({ ...before, fault }));
  // The gateway ends a stream after an hour and with each new configuration: it is asked for again.
  while (!signal.aborted) {
    try {
      for await (const { event, data } of serverEvents(`/logs/stream?${query.toString()}`, { signal })) {
        if (event === 'log') {
          waiting.push(JSON.parse(data) as LogEntry);
          if (waiting.length > mostLive) waiting = waiting.slice(-mostLive);
          timer ??= setTimeout(show, 100);
        } else if (event === 'skipped') {
          const { count } = JSON.parse(data) as { count: number };
          set((before) => ({ ...before, skipped: before.skipped + count }));
        } else if (event === 'problem') say((JSON.parse(data) as { message: string }).message);
      }
    } catch (error) {
      if (signal.aborted) break;
      say(error instanceof Error ? error.message : String(error));
      if (error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429)
        break;
    }
    await pause(3000, signal);
  }
  clearTimeout(timer);
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** Entries of both lists, each once, those of the first list before. */
export function merged(first: readonly LogEntry[], then: readonly LogEntry[]): readonly LogEntry[] {
  if (first.length === 0) return then;
  const seen = new Set(first.map(({ id }) => id));
  return [...first, ...then.filter(({ id }) => !seen.has(id))];
}
