import { useEffect, useRef, useState } from 'react';
import { type InfiniteData, keepPreviousData, useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { api, ApiError, dataOf, send } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { type ServerEvent, serverEvents } from '@/lib/events';
import type { Filters } from '@/lib/filters';
import { usePreferences } from '@/lib/preferences';
import { spanOf, timesOf, type Range } from '@/lib/time-range';
import { logs as texts } from '@/texts/logs';

/** A page of the log as the API gives it. */
type LogPage = operations['logs.list']['responses'][200]['content']['application/json'];
/** An entry of a list. */
export type LogEntry = LogPage['data'][number];

/** The search in the log. */
export interface LogView {
  readonly range: Range;
  readonly filters: Filters;
  readonly order: 'newest' | 'oldest';
}

/** Entries of the first page, which is waited for, and of those that follow while somebody scrolls. */
const firstEntries = 50;
const furtherEntries = 200;

/** Entries by pages; a view that is left takes its requests with it. `refresh` reads them anew, from the first page. */
export function useLogs({ range, filters, order }: LogView) {
  const { zone, words } = usePreferences();
  const include = words ? { include: 'preview' as const } : {};
  const queries = useQueryClient();
  const queryKey = ['logs', range, range.name === 'custom' ? '' : zone, filters, order, words];
  const query = useInfiniteQuery({
    queryKey,
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
  const refresh = async (): Promise<void> => {
    // One that is under way may have been answered before.
    await queries.cancelQueries({ queryKey, exact: true });
    queries.setQueryData<InfiniteData<LogPage, string>>(
      queryKey,
      (data) => data && { pages: data.pages.slice(0, 1), pageParams: data.pageParams.slice(0, 1) },
    );
    await queries.refetchQueries({ queryKey, exact: true }, { throwOnError: true });
  };
  return { query, refresh };
}

/** Entries that came while the list is followed; with more, the list is read anew. */
const mostLive = 2000;
/** Entries that are fetched at once when the stream has left some out; of more, the list is read anew. */
const mostFetched = 1000;
/** The gateway says something every 15 seconds. */
const silenceMs = 40_000;
const retryMs = 3000;
/** A log that leaves entries out again within this time, in which it is asked twice, is too fast to be followed: they are counted. */
const busyMs = 12_000;

interface Tail {
  readonly entries: readonly LogEntry[];
  /** Entries that came too fast to be shown, so far. */
  readonly unseen: number;
  readonly fault: string | undefined;
}

const noTail: Tail = { entries: [], unseen: 0, fault: undefined };

/**
 * Entries as they come, the newest first; while `on` and the page is in sight. What comes while the stream is away, or was left out once, is
 * fetched afterwards: from where the stream was cut off, from the list, or by reading the list anew with `refresh`. Of a
 * log that leaves out again and again entries are counted, until it is slower.
 */
export function useTail(on: boolean, view: LogView, refresh: () => Promise<void>): Tail {
  const { words } = usePreferences();
  const [tail, setTail] = useState(noTail);
  const latest = useRef({ filters: view.filters, refresh });
  latest.current = { filters: view.filters, refresh };
  const asked = JSON.stringify([view, words]);
  useEffect(() => {
    setTail(noTail);
    if (!on) return undefined;
    const stop = new AbortController();
    const { filters } = latest.current;
    void new Follower(
      {
        asked: { ...filters, ...(words && { include: 'preview' }) },
        signal: stop.signal,
        refresh: () => latest.current.refresh(),
      },
      (now) => {
        if (!stop.signal.aborted) setTail(now);
      },
    ).run();
    return () => stop.abort();
  }, [on, asked]);
  return tail;
}

interface Following {
  /** Of the stream, and of the list where it is asked for what the stream left out. */
  readonly asked: Filters & { readonly include?: 'preview' };
  readonly signal: AbortSignal;
  /** Reads the list anew; rejects when it cannot. */
  refresh(): Promise<void>;
}

/** Follows the log until its signal is aborted. */
class Follower {
  readonly #following: Following;
  readonly #show: (tail: Tail) => void;
  #entries: readonly LogEntry[] = [];
  /** A busy gateway has many a second: they are shown together, ten times a second at most. */
  #waiting: LogEntry[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #fault: string | undefined;
  /** Of a log that is too fast; the list is read anew once it is not. */
  #unseen = 0;
  #leftOutAt = -Infinity;
  /** Where the stream goes on; empty when the list has to be read first. */
  #lastId = '';

  constructor(following: Following, show: (tail: Tail) => void) {
    this.#following = following;
    this.#show = show;
  }

  async run(): Promise<void> {
    const { signal } = this.#following;
    // The gateway ends a stream after an hour and with each new configuration: it is asked for again.
    while (!signal.aborted) {
      await untilSeen(signal);
      if (signal.aborted) break;
      try {
        await this.#connect();
      } catch (error) {
        if (signal.aborted) break;
        // Cut off because nobody looks: it goes on from its place as soon as somebody does.
        if (document.hidden) continue;
        this.#say(error instanceof ApiError ? error.message : texts.live.away);
        if (error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429)
          break;
      }
      await untilRetry(signal);
    }
    clearTimeout(this.#timer);
  }

  /** One stream, to its end. */
  async #connect(): Promise<void> {
    const { asked, signal } = this.#following;
    const query = new URLSearchParams(Object.entries(asked).map(([name, value]) => [name, String(value)]));
    const cut = new AbortController();
    const end = (): void => cut.abort(signal.reason);
    // A line that is new has nothing of the old one's connections.
    const changed = (): void => cut.abort();
    const hidden = (): void => {
      if (document.hidden) cut.abort();
    };
    signal.addEventListener('abort', end);
    addEventListener('online', changed);
    document.addEventListener('visibilitychange', hidden);
    try {
      const answer = await send(`/logs/stream?${query.toString()}`, {
        headers: {
          accept: 'text/event-stream',
          ...(this.#lastId !== '' && { 'last-event-id': this.#lastId }),
        },
        signal: cut.signal,
      });
      // What came before the stream began is in the list that is read after it.
      if (this.#lastId === '') await this.#readAnew();
      this.#say(undefined);
      for await (const event of serverEvents(answer, silenceMs)) {
        await this.#take(event);
        this.#lastId = event.id;
      }
    } finally {
      signal.removeEventListener('abort', end);
      removeEventListener('online', changed);
      document.removeEventListener('visibilitychange', hidden);
    }
  }

  async #take({ event, data }: ServerEvent): Promise<void> {
    // The gateway says something every 15 seconds, so that this comes soon.
    if (this.#unseen > 0 && event !== 'skipped' && performance.now() - this.#leftOutAt > busyMs)
      await this.#readAnew();
    if (event === 'log') {
      this.#waiting.push(JSON.parse(data) as LogEntry);
      const tooMany = this.#waiting.length + this.#entries.length - mostLive;
      if (tooMany > 0 && this.#unseen === 0) await this.#readAnew();
      else if (tooMany > 0) this.#forget(mostLive / 2);
      else this.#timer ??= setTimeout(() => this.#showWaiting(), 100);
    } else if (event === 'skipped') await this.#fetchLeftOut(JSON.parse(data) as LeftOut);
    else if (event === 'gap') await this.#readAnew();
    else if (event === 'problem') this.#say((JSON.parse(data) as { message: string }).message);
  }

  #say(fault: string | undefined): void {
    this.#fault = fault;
    this.#tell();
  }

  #tell(): void {
    this.#show({ entries: this.#entries, unseen: this.#unseen, fault: this.#fault });
  }

  #showWaiting(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const fresh = this.#waiting.reverse();
    this.#waiting = [];
    this.#entries = merged(fresh, this.#entries);
    this.#tell();
  }

  /** Drops the oldest entries, which the list has when it is read anew. */
  #forget(count: number): void {
    this.#showWaiting();
    this.#unseen += count;
    this.#entries = this.#entries.slice(0, -count);
    this.#tell();
  }

  /** The list has all that came so far; only what comes from now on stands before it. */
  async #readAnew(): Promise<void> {
    // Until it has been read, the next connection begins with it.
    this.#lastId = '';
    this.#showWaiting();
    await this.#following.refresh();
    this.#entries = [];
    this.#unseen = 0;
    this.#say(undefined);
  }

  async #fetchLeftOut({ count, from, to }: LeftOut): Promise<void> {
    const now = performance.now();
    const isBusy = now - this.#leftOutAt < busyMs;
    this.#leftOutAt = now;
    if (isBusy) {
      this.#unseen += count;
      return this.#tell();
    }
    if (count > mostFetched) return this.#readAnew();
    const { asked, signal } = this.#following;
    const found: LogEntry[] = [];
    const window = { time_of_generation_min: from, time_of_generation_max: to };
    let cursor: string | null = null;
    do {
      const place = cursor === null ? { ...window, order: 'newest' as const } : { cursor };
      const page: LogPage = await dataOf(
        api.GET('/logs', {
          params: {
            query: { ...asked, ...place, page_size: furtherEntries },
          },
          signal,
        }),
      );
      found.push(...page.data);
      cursor = page.next_cursor;
    } while (cursor !== null && found.length < mostFetched);
    if (cursor !== null) return this.#readAnew();
    this.#showWaiting();
    this.#entries = [...merged(found, this.#entries)].sort(newestFirst);
    this.#tell();
  }
}

/** Entries that the stream has not told: as many, accepted in this time. */
interface LeftOut {
  readonly count: number;
  readonly from: string;
  readonly to: string;
}

/** The order of the list. */
function newestFirst(one: LogEntry, other: LogEntry): number {
  const [first, second] = [one, other].map(({ created_at: at, id }) => `${at} ${id}`) as [string, string];
  return first < second ? 1 : first > second ? -1 : 0;
}

/** Waits until the page is in sight. */
function untilSeen(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const look = (): void => {
      if (document.hidden && !signal.aborted) return;
      signal.removeEventListener('abort', look);
      document.removeEventListener('visibilitychange', look);
      resolve();
    };
    signal.addEventListener('abort', look);
    document.addEventListener('visibilitychange', look);
    look();
  });
}

/** Waits a moment, or until the browser is online or seen again. */
function untilRetry(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      removeEventListener('online', done);
      document.removeEventListener('visibilitychange', done);
      resolve();
    };
    const timer = setTimeout(done, retryMs);
    signal.addEventListener('abort', done);
    addEventListener('online', done);
    document.addEventListener('visibilitychange', done);
  });
}

/** Entries of both lists, each once, those of the first list before. */
export function merged(first: readonly LogEntry[], then: readonly LogEntry[]): readonly LogEntry[] {
  if (first.length === 0) return then;
  const seen = new Set(first.map(({ id }) => id));
  return [...first, ...then.filter(({ id }) => !seen.has(id))];
}
