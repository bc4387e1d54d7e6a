import { hasScope, roleOf } from '../../../core/access/scopes.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineMediaRoute, GatewayError, type Scope, Type } from '../../../core/pipeline/plugin.ts';
import type { Visibility } from '../../../core/ports/analytics.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import { visibilityIn } from '../shared/data-visibility.ts';
import { filterQuery, readFilter } from '../shared/request-filter.ts';
import { strict } from '../shared/fields.ts';
import { LogFeeds } from './follow.ts';
import { previewCharacters } from './routes.ts';
import type { TailEnd } from './tail.ts';

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
