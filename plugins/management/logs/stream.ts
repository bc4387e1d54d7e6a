import { hasScope, roleOf } from '../../../core/access/scopes.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineMediaRoute, GatewayError, type Scope, Type } from '../../../core/pipeline/plugin.ts';
import { mapInTurns } from '../../../core/base/turns.ts';
import type { LeftOut, LogPlace, NewLogs, Visibility } from '../../../core/ports/analytics.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import { visibilityIn } from '../shared/data-visibility.ts';
import { filterQuery, readFilter } from '../shared/request-filter.ts';
import { strict } from '../shared/fields.ts';
import type { StreamSource, StreamTarget } from '../../../core/pipeline/answer.ts';
import type { Clock } from '../../../core/ports/clock.ts';
import { logSummary } from './record.ts';
import { previewCharacters } from './routes.ts';

const maxStreams = 20;
const maxStreamsPerKey = 3;

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

const pollMs = 1000;
const heartbeatMs = 15_000;
const longestMs = 3_600_000;
/** An entry takes 30 microseconds to write: requests are served in between. */
const entriesAtOnce = 16;
const firstRetryMs = 2000;
const longestRetryMs = 30_000;

/** Reason for the end of a stream, as a code and as a sentence. */
interface TailEnd {
  readonly reason: 'time' | 'restart' | 'access';
  readonly message: string;
}

/** Dependencies of a tail. */
interface TailParts {
  readonly clock: Clock;
  /** Entries since the last call; throws a `TailEnded` when the stream has to end. */
  ask(since: LogPlace | undefined): Promise<NewLogs>;
  /** Result of the first call of `ask`. */
  readonly first: NewLogs;
  /** The client wanted to go on from a place that is too old or unknown. */
  readonly isGap?: boolean;
  /** Event id with which clients resume; see `NewLogs.resume`. */
  eventId(resume: string): string;
  /** Called once, at the end. */
  onEnd(): void;
}

/** The stream has to end for this reason. */
export class TailEnded extends Error {
  readonly end: TailEnd;

  constructor(end: TailEnd) {
    super(end.message);
    this.end = end;
  }
}

/**
 * Follows the log: server-sent events from `first` until the reader leaves, an hour has passed, or `finish`. For a slow
 * reader entries are counted and not buffered.
 */
export class LogTail implements StreamSource {
  private readonly parts: TailParts;
  private target: StreamTarget | undefined;
  private since: LogPlace;
  private id: string;
  private paused = false;
  private skipped: LeftOut | undefined;
  private failures = 0;
  private over = false;
  private endsAt = 0;
  private quietSince = 0;
  private cancelTimer: () => void = () => undefined;

  constructor(parts: TailParts) {
    this.parts = parts;
    this.since = parts.first.since;
    this.id = parts.eventId(parts.first.resume);
  }

  pipe(target: StreamTarget): void {
    // `finish` may have been called before `pipe`.
    if (this.over) return target.end();
    this.target = target;
    const { clock, first, isGap = false } = this.parts;
    this.endsAt = clock.monotonic() + longestMs;
    this.write(`: following the log\nretry: 3000\nid: ${this.id}\n\n`);
    if (isGap) this.write(event('gap', {}, this.id));
    void this.tell(first).then(
      () => this.wait(pollMs),
      (error: unknown) => this.tellProblem(error),
    );
  }

  resume(): void {
    this.paused = false;
    this.tellSkipped();
  }

  cancel(): void {
    this.close();
  }

  /** Ends the stream with an event that states the reason. */
  finish({ reason, message }: TailEnd): void {
    if (this.over) return;
    this.tellSkipped();
    this.write(event('end', { reason, message }, this.id));
    const { target } = this;
    this.close();
    target?.end();
  }

  private close(): void {
    if (this.over) return;
    this.over = true;
    this.cancelTimer();
    this.parts.onEnd();
  }

  private wait(ms: number): void {
    if (this.over) return;
    this.cancelTimer = this.parts.clock.after(ms, () => void this.poll());
  }

  /** Never rejects. */
  private async poll(): Promise<void> {
    if (this.parts.clock.monotonic() >= this.endsAt) {
      return this.finish({ reason: 'time', message: 'A stream ends after an hour. Connect again to go on.' });
    }
    try {
      const found = await this.parts.ask(this.since);
      if (this.over) return;
      this.failures = 0;
      this.since = found.since;
      await this.tell(found);
      this.wait(pollMs);
    } catch (error) {
      if (this.over) return;
      if (error instanceof TailEnded) this.finish(error.end);
      else this.tellProblem(error);
    }
  }

  private async tell({ records, left, resume }: NewLogs): Promise<void> {
    const next = this.parts.eventId(resume);
    if (left !== undefined) this.skip(left);
    this.tellSkipped();
    const last = records.at(-1);
    await mapInTurns(
      records,
      (record) => {
        if (this.over) return;
        // Only the last entry of a batch advances the id: a client cut off within the batch receives it again.
        const id = record === last ? next : this.id;
        const entry = logSummary(record);
        const from = Date.parse(entry.created_at);
        if (this.paused) this.skip({ count: 1, window: { from, to: from + 1 } });
        else this.write(event('log', entry, id));
      },
      entriesAtOnce,
    );
    if (this.over) return;
    this.id = next;
    const now = this.parts.clock.monotonic();
    if (!this.paused && now - this.quietSince >= heartbeatMs) this.write(`: alive\nid: ${next}\n\n`);
  }

  private skip({ count, window }: LeftOut): void {
    const before = this.skipped ?? { count: 0, window };
    this.skipped = {
      count: before.count + count,
      window: {
        from: Math.min(before.window.from, window.from),
        to: Math.max(before.window.to, window.to),
      },
    };
  }

  private tellSkipped(): void {
    if (this.skipped === undefined || this.paused) return;
    const { count, window } = this.skipped;
    this.skipped = undefined;
    const [from, to] = [window.from, window.to].map((at) => new Date(at).toISOString());
    this.write(event('skipped', { count, from, to }, this.id));
  }

  /** Reports a failure of the store and retries with backoff; later entries follow after it recovers. */
  private tellProblem(error: unknown): void {
    const most = Math.min(longestRetryMs, firstRetryMs * 2 ** Math.min(this.failures, 8));
    this.failures += 1;
    const { code, message } = GatewayError.is(error)
      ? error
      : { code: 'internal', message: 'The log could not be read.' };
    if (!this.paused) this.write(event('problem', { code, message, retry_ms: most }, this.id));
    this.wait(most);
  }

  private write(text: string): void {
    this.quietSince = this.parts.clock.monotonic();
    if (this.target?.data(Buffer.from(text)) === false) this.paused = true;
  }
}

function event(name: string, data: unknown, id: string): string {
  return `event: ${name}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** Upper bound of entries per poll. */
const maxPerPoll = 200;
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
  private readonly tails = new Set<LogTail>();
  private isEnding = false;

  constructor(scope: Scope) {
    this.scope = scope;
    scope.onDispose(() => this.end());
  }

  /** Ends all streams with an event. */
  end(): void {
    this.isEnding = true;
    for (const tail of this.tails) tail.finish(restart);
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
        const { clock, analytics, directory } = this.scope;
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
        const ask = async (since: LogPlace | undefined): Promise<NewLogs> =>
          analytics.newLogs({
            since,
            filter,
            limit: maxPerPoll,
            visibility: visibilityOrEnd(visibility),
            ...(query.include === 'preview' && { preview: previewCharacters }),
          });
        // Before the stream starts, a refusal is an ordinary error answer.
        visibility();
        const leave = this.places.take(key.id);
        const unregister = context.onAbort(leave);
        try {
          const lastId = context.header('last-event-id');
          const { first, resumed } = await firstAnswer(ask, recentPlace(lastId, clock.now()));
          if (this.isEnding) throw restarting();
          const tail: LogTail = new LogTail({
            clock,
            ask,
            first,
            isGap: lastId !== undefined && !resumed,
            eventId: (resume) => `${clock.now()}-${resume}`,
            onEnd: () => {
              this.tails.delete(tail);
              unregister();
              leave();
            },
          });
          this.tails.add(tail);
          return { status: 200, headers, body: tail };
        } catch (error) {
          unregister();
          leave();
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

/** Turns a refusal within a stream into its end. */
function visibilityOrEnd(visibility: () => Visibility): Visibility {
  try {
    return visibility();
  } catch (error) {
    if (!GatewayError.is(error)) throw error;
    throw new TailEnded({ reason: 'access', message: error.message });
  }
}

/** First result for a stream. A place that the store does not know is ignored, and the stream starts now. */
async function firstAnswer(
  ask: (since: string | undefined) => Promise<NewLogs>,
  place: string | undefined,
): Promise<{ readonly first: NewLogs; readonly resumed: boolean }> {
  try {
    return { first: await ask(place), resumed: place !== undefined };
  } catch (error) {
    if (place !== undefined && GatewayError.is(error) && error.code === 'invalid_request')
      return { first: await ask(undefined), resumed: false };
    if (error instanceof TailEnded) throw new GatewayError('scope_missing', error.message);
    throw error;
  }
}

/** The place to resume for a recently disconnected client; see `eventId`. */
function recentPlace(lastEventId: string | undefined, now: number): string | undefined {
  const [, at, place] = /^(\d{1,15})-([\w.-]{1,64})$/.exec(lastEventId ?? '') ?? [];
  return at !== undefined && Math.abs(now - Number(at)) <= recentMs ? place : undefined;
}

function restarting(): GatewayError {
  return new GatewayError('shutting_down', restart.message);
}
