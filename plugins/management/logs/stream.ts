import { hasScope, roleOf } from '../../../core/access/scopes.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineMediaRoute, GatewayError, type Scope, Type } from '../../../core/pipeline/plugin.ts';
import type {
  Analytics,
  LogPlace,
  NewLogs,
  NewLogsQuery,
  Visibility,
} from '../../../core/ports/analytics.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import { visibilityIn } from '../shared/data-visibility.ts';
import { filterQuery, readFilter } from '../shared/request-filter.ts';
import { strict } from '../shared/fields.ts';
import { previewCharacters } from './routes.ts';
import { batchOf, type Joined, LogTail, type TailEnd, type TailParts, type TailQuestion } from './tail.ts';
import type { Clock } from '../../../core/ports/clock.ts';

const pollMs = 1000;
/** Between two polls of a log of which entries were left out: nobody reads that many. */
const busyPollMs = 5000;
const firstRetryMs = 2000;
const longestRetryMs = 30_000;
/** Upper bound of entries per poll; in a log that is too fast to read, of its newest: each costs the gateway time. */
const maxPerPoll = 200;
const maxPerBusyPoll = 40;

const changed: TailEnd = {
  reason: 'access',
  message: 'What the key may see has changed while the stream began. Connect again.',
};

interface FeedParts {
  readonly clock: Clock;
  readonly key: string;
  ask(
    query: Pick<NewLogsQuery, 'since' | 'visibility' | 'isLast'> & { readonly limit: number },
  ): Promise<NewLogs>;
  /** The reader of the tail may see other rows than the others now. */
  onMove(tail: LogTail, since: LogPlace): void;
  /** Called once, when its last tail has left. */
  onEnd(): void;
}

/** One question, which the store is asked once for all tails that ask it. */
class LogFeed {
  private readonly parts: FeedParts;
  private readonly tails = new Set<LogTail>();
  private begun: Promise<unknown> | undefined;
  private since: LogPlace = '';
  private id = '';
  private failures = 0;
  /** The last poll left entries out. */
  private isBusy = false;
  private over = false;
  private cancelTimer: (() => void) | undefined;

  constructor(parts: FeedParts) {
    this.parts = parts;
  }

  /** What comes from now on is told to this tail as well. It ends with its last tail. */
  add(tail: LogTail): void {
    this.tails.add(tail);
    tail.leave = () => {
      this.tails.delete(tail);
      if (this.over || this.tails.size > 0) return;
      this.over = true;
      this.cancelTimer?.();
      this.parts.onEnd();
    };
  }

  /**
   * What a tail that was added missed since a place; without one, it begins with what comes next. The store is asked when
   * this feed cannot know: for its first tail, for a place, and while the store does not answer.
   */
  async catchUp(place: LogPlace | undefined, visibility: Visibility): Promise<Joined> {
    if (this.begun === undefined) {
      const beginning = firstAnswer(
        (since) => this.parts.ask({ since, visibility, limit: maxPerPoll }),
        place,
      );
      this.begun = beginning;
      const { first, resumed } = await beginning;
      this.advance(first);
      if (!this.over) this.wait(pollMs);
      return { first, resumed, id: this.id };
    }
    await this.begun;
    if (place === undefined && this.failures === 0)
      return { first: { records: [], left: undefined }, resumed: false, id: this.id };
    const { first, resumed } = await firstAnswer(
      (since) => this.parts.ask({ since, visibility, limit: maxPerPoll, isLast: true }),
      place,
    );
    if (this.failures > 0 && this.cancelTimer !== undefined) this.wait(0);
    return { first, resumed, id: this.eventId(first.resume) };
  }

  private eventId(resume: string): string {
    return `${this.parts.clock.now()}-${resume}`;
  }

  private advance({ since, resume }: NewLogs): void {
    this.since = since;
    this.id = this.eventId(resume);
  }

  private wait(ms: number): void {
    this.cancelTimer?.();
    this.cancelTimer = this.parts.clock.after(ms, () => {
      this.cancelTimer = undefined;
      void this.poll();
    });
  }

  /** Never rejects. */
  private async poll(): Promise<void> {
    const visibility = this.checkedVisibility();
    if (visibility === undefined) return;
    try {
      const limit = this.isBusy ? maxPerBusyPoll : maxPerPoll;
      const found = await this.parts.ask({ since: this.since, visibility, limit });
      this.isBusy = found.left !== undefined;
      const before = this.id;
      this.advance(found);
      const batch = await batchOf(found, before, this.id);
      if (this.over) return;
      this.failures = 0;
      for (const tail of [...this.tails]) tail.take(batch);
      this.wait(this.isBusy ? busyPollMs : pollMs);
    } catch (error) {
      if (this.over) return;
      const retryMs = Math.min(longestRetryMs, firstRetryMs * 2 ** Math.min(this.failures, 8));
      this.failures += 1;
      for (const tail of [...this.tails]) tail.problem(error, retryMs);
      this.wait(retryMs);
    }
  }

  /** What all tails may see; those that may see something else leave. Undefined when none is left. */
  private checkedVisibility(): Visibility | undefined {
    let asker: Visibility | undefined;
    for (const tail of [...this.tails]) {
      const visibility = tail.check();
      if (visibility === undefined) continue;
      if (feedKey(tail.question, visibility) === this.parts.key) asker ??= visibility;
      else if (tail.isHeld) tail.finish(changed);
      else this.parts.onMove(tail, this.since);
    }
    return asker;
  }
}

/** Tails with the same key get the same events. Which key asks does not matter for them. */
function feedKey({ filter, preview }: TailQuestion, visibility: Visibility): string {
  const { organisationId, workspaceId, userId, apiKeyId } = visibility;
  return JSON.stringify(
    [organisationId, workspaceId, userId, apiKeyId, preview, filter].map((one) => one ?? null),
  );
}

/** First result for a tail. A place that the store does not know is ignored, and the tail starts now. */
async function firstAnswer(
  ask: (since: LogPlace | undefined) => Promise<NewLogs>,
  place: LogPlace | undefined,
): Promise<{ readonly first: NewLogs; readonly resumed: boolean }> {
  try {
    return { first: await ask(place), resumed: place !== undefined };
  } catch (error) {
    if (place !== undefined && GatewayError.is(error) && error.code === 'invalid_request')
      return { first: await ask(undefined), resumed: false };
    throw error;
  }
}

/** Follows the log for all readers: those that ask the same and may see the same share what the store is asked. */
export class LogFeeds {
  private readonly clock: Clock;
  private readonly analytics: Pick<Analytics, 'newLogs'>;
  private readonly feeds = new Map<string, LogFeed>();
  private readonly tails = new Set<LogTail>();

  constructor({
    clock,
    analytics,
  }: {
    readonly clock: Clock;
    readonly analytics: Pick<Analytics, 'newLogs'>;
  }) {
    this.clock = clock;
    this.analytics = analytics;
  }

  /** A tail that goes on from its place, or begins now. Rejects, without a call of `onEnd`, when it cannot begin. */
  async open(parts: TailParts): Promise<LogTail> {
    const tail = new LogTail(this.clock, {
      ...parts,
      onEnd: () => {
        this.tails.delete(tail);
        parts.onEnd();
      },
    });
    this.tails.add(tail);
    try {
      await tail.release(await this.join(tail, parts.visibility(), parts.last?.place));
      return tail;
    } catch (error) {
      this.tails.delete(tail);
      throw error;
    }
  }

  /** Ends all tails. */
  end(reason: TailEnd): void {
    for (const tail of this.tails) tail.finish(reason);
  }

  private async join(tail: LogTail, visibility: Visibility, place: LogPlace | undefined): Promise<Joined> {
    const key = feedKey(tail.question, visibility);
    const feed = this.feeds.get(key) ?? this.makeFeed(key, tail.question);
    // Before the question about the past: what is new afterwards is told by the feed.
    feed.add(tail);
    try {
      return await feed.catchUp(place, visibility);
    } catch (error) {
      tail.leave();
      throw error;
    }
  }

  private makeFeed(key: string, question: TailQuestion): LogFeed {
    const feed = new LogFeed({
      clock: this.clock,
      key,
      ask: (query) => this.analytics.newLogs({ ...query, ...question }),
      onMove: (tail, since) => {
        tail.leave();
        void this.move(tail, since);
      },
      onEnd: () => {
        if (this.feeds.get(key) === feed) this.feeds.delete(key);
      },
    });
    this.feeds.set(key, feed);
    return feed;
  }

  /** Never rejects. */
  private async move(tail: LogTail, place: LogPlace): Promise<void> {
    const visibility = tail.check();
    if (visibility === undefined) return;
    tail.hold();
    try {
      await tail.release(await this.join(tail, visibility, place));
    } catch (error) {
      if (tail.isOver) return;
      tail.problem(error, firstRetryMs);
      tail.leave = this.clock.after(firstRetryMs, () => void this.move(tail, place));
    }
  }
}

const maxStreams = 20;
const maxStreamsPerKey = 10;

/** Counts open streams, in total and by key. */
class StreamPlaces {
  private readonly byKey = new Map<string, number>();
  private all = 0;

  /** Takes a place; the returned function releases it and is idempotent. Throws `too_many_streams`. */
  take(keyId: string): () => void {
    const ofKey = this.byKey.get(keyId) ?? 0;
    if (ofKey >= maxStreamsPerKey)
      throw tooManyStreamsError(`This key follows the log in ${maxStreamsPerKey} streams already`);
    if (this.all >= maxStreams)
      throw tooManyStreamsError(`This gateway serves ${maxStreams} streams of the log already`);
    this.all += 1;
    this.byKey.set(keyId, ofKey + 1);
    let taken = true;
    return () => {
      if (!taken) return;
      taken = false;
      this.all -= 1;
      const left = (this.byKey.get(keyId) ?? 1) - 1;
      if (left === 0) this.byKey.delete(keyId);
      else this.byKey.set(keyId, left);
    };
  }
}

function tooManyStreamsError(what: string): GatewayError {
  return new GatewayError('too_many_streams', `${what}, the most. End one of them first.`, {
    headers: ['retry-after', '10'],
  });
}

/** Time after a disconnection within which a client can resume. */
const recentMs = 300_000;
const scopes = ['logs.list', 'logs.view'];
const headers = [
  ...['content-type', 'text/event-stream; charset=utf-8'],
  // Prevents proxies from buffering the stream.
  ...['cache-control', 'no-store', 'x-accel-buffering', 'no'],
];

const restart: TailEnd = {
  reason: 'restart',
  message: 'The gateway restarts or has a new configuration. Connect again.',
};
/** Filters without a time range: a stream starts now. */
const filters = Type.Omit(Type.Object(filterQuery), ['time_of_generation_min', 'time_of_generation_max']);
const Query = Type.Object(
  {
    ...filters.properties,
    include: Type.Optional(
      Type.Literal('preview', {
        description: `Include a \`preview\` of each request, as \`GET /logs\` does. An entry whose body has not arrived waits for it for two seconds.`,
      }),
    ),
  },
  strict,
);

/** The streams of one generation. */
export class LogStreams {
  private readonly scope: Scope;
  private readonly places = new StreamPlaces();
  private readonly feeds: LogFeeds;
  private isEnding = false;

  constructor(scope: Scope) {
    this.scope = scope;
    this.feeds = new LogFeeds(scope);
    scope.onDispose(() => this.end());
  }

  /** Ends all streams with an event. */
  end(): void {
    this.isEnding = true;
    this.feeds.end(restart);
  }

  /** `GET /logs/stream`: entries as they arrive. */
  get route(): RouteDefinition {
    return defineMediaRoute({
      id: 'logs.stream',
      method: 'GET',
      path: '/logs/stream',
      summary: 'New log entries, as server-sent events',
      scope: scopes,
      // Reads only.
      audit: null,
      query: Query,
      reply: Type.String({
        description:
          'Events: `log` (an entry as `GET /logs` shows it), `skipped` (`count` entries were omitted; `GET /logs` has them between `from` and `to`), `gap` (the place of `last-event-id` is older than five minutes, or unknown: entries since then are not told, `GET /logs` has them), `problem` (the store does not answer; the gateway retries), `end` (with its `reason`: `time`, `restart` or `access`).',
      }),
      media: 'text/event-stream',
      examples: {
        response:
          'event: log\nid: 1795344426455-1795344425854\ndata: {"id":"9242e2dd-e950-4d1b-985e-8ef8f9f360b6"}\n\n',
      },
      handle: async ({ query, key, context }) => {
        const { clock, directory } = this.scope;
        const { filter } = readFilter(query, clock.now());
        const isListed = directory.keyById(key.id) !== undefined;
        const visibility = (): Visibility => {
          const caller = isListed ? directory.keyById(key.id) : key;
          return visibilityIn(
            { key: this.allowed(caller), role: roleOf(caller ?? key, directory) },
            directory,
            query,
          );
        };
        // Before the stream starts, a refusal is an ordinary error answer.
        visibility();
        const leave = this.places.take(key.id);
        const unregister = context.onAbort(leave);
        const free = (): void => {
          unregister();
          leave();
        };
        try {
          const id = context.header('last-event-id');
          const tail = await this.feeds.open({
            question: { filter, ...(query.include === 'preview' && { preview: previewCharacters }) },
            visibility,
            last: id === undefined ? undefined : { id, place: recentPlace(id, clock.now()) },
            onEnd: free,
          });
          if (this.isEnding) throw restarting();
          return { status: 200, headers, body: tail };
        } catch (error) {
          free();
          throw error;
        }
      },
    });
  }

  /** The key, if it still may follow the log; throws `scope_missing` otherwise. */
  private allowed(key: KeyRecord | undefined): KeyRecord {
    const { clock, directory } = this.scope;
    const why =
      key === undefined
        ? 'there is no such key any more'
        : key.expiresAt !== null && clock.now() >= key.expiresAt
          ? 'the key has expired'
          : !scopes.some((scope) => hasScope(key, scope))
            ? 'the key may not read the log any more'
            : key.kind.startsWith('workspace') && directory.isArchived(key.workspaceId)
              ? 'its workspace was archived'
              : undefined;
    if (key === undefined || why !== undefined)
      throw new GatewayError('scope_missing', `The stream ends: ${why}.`);
    return key;
  }
}

/** The place to resume for a recently disconnected client; see `LogFeed.eventId`. */
function recentPlace(lastEventId: string, now: number): string | undefined {
  const [, at, place] = /^(\d{1,15})-([\w.-]{1,64})$/.exec(lastEventId) ?? [];
  return at !== undefined && Math.abs(now - Number(at)) <= recentMs ? place : undefined;
}

function restarting(): GatewayError {
  return new GatewayError('shutting_down', restart.message);
}
