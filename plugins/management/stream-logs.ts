import { holds } from '../../core/access/access.ts';
import { roleOf } from '../../core/access/roles.ts';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineMediaRoute, GatewayError, Type, type Scope } from '../../core/pipeline/plugin.ts';
import type { NewLogs, Visibility } from '../../core/ports/analytics.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import { visibilityIn } from './data-visibility.ts';
import { LogTail, TailEnded, type TailEnd } from './log-tail.ts';
import { filterQuery, readFilter } from './request-filter.ts';
import { StreamPlaces } from './stream-places.ts';
import { strict } from './text-schema.ts';

/** Entries that are told at once. */
const mostAtOnce = 200;
/** How long ago a client may have been cut off to go on where it was. */
const recentMs = 300_000;
const scopes = ['logs.list', 'logs.view'];
const headers = [
  ...['content-type', 'text/event-stream; charset=utf-8'],
  // Proxies must not wait for the end.
  ...['cache-control', 'no-store', 'x-accel-buffering', 'no'],
];

const restart: TailEnd = {
  reason: 'restart',
  message: 'The gateway restarts or has a new configuration. Connect again.',
};
/** When is now. */
const filters = Type.Omit(Type.Object(filterQuery), ['time_of_generation_min', 'time_of_generation_max']);

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

  /** Ends all of them, with an event that says so. */
  end(): void {
    this.isEnding = true;
    for (const tail of this.tails) tail.finish(restart);
  }

  /** `GET /logs/stream`: entries as they come. */
  get route(): RouteDefinition {
    return defineMediaRoute({
      id: 'logs.stream',
      method: 'GET',
      path: '/logs/stream',
      summary: 'Logged requests as they come, as server-sent events',
      scope: scopes,
      // Reads only.
      audit: null,
      query: Type.Object(filters.properties, strict),
      reply: Type.String({
        description:
          'Events: `log` (an entry as `GET /logs` shows it), `skipped` (`count` entries were left out), `problem` (the store could not be asked; it is tried again), `end` (with its `reason`: `time`, `restart` or `access`).',
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
        const ask = async (since: string | undefined): Promise<NewLogs> =>
          analytics.newLogs({ since, filter, limit: mostAtOnce, visibility: ended(visibility) });
        // Refused like any other request, before there is a stream.
        visibility();
        const leave = this.places.take(key.id);
        const unregister = context.onAbort(leave);
        try {
          const first = await firstAnswer(ask, recentPlace(context.header('last-event-id'), clock.now()));
          if (this.isEnding) throw restarting();
          const tail: LogTail = new LogTail({
            ...{ clock, ask, first },
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

  /** The key, as long as it may follow the log. */
  private allowed(key: KeyRecord | undefined): KeyRecord {
    const { clock, directory } = this.scope;
    const why =
      key === undefined
        ? 'there is no such key any more'
        : key.expiresAt !== null && clock.now() >= key.expiresAt
          ? 'the key has expired'
          : !scopes.some((scope) => holds(key, scope))
            ? 'the key may not read the log any more'
            : key.kind.startsWith('workspace') && directory.isArchived(key.workspaceId)
              ? 'its workspace was archived'
              : undefined;
    if (key === undefined || why !== undefined)
      throw new GatewayError('scope_missing', `The stream ends: ${why}.`);
    return key;
  }
}

/** A refusal in the middle of a stream ends it. */
function ended(visibility: () => Visibility): Visibility {
  try {
    return visibility();
  } catch (error) {
    if (!GatewayError.is(error)) throw error;
    throw new TailEnded({ reason: 'access', message: error.message });
  }
}

/** A place that the store does not know is no reason to refuse: the stream begins anew. */
async function firstAnswer(
  ask: (since: string | undefined) => Promise<NewLogs>,
  place: string | undefined,
): Promise<NewLogs> {
  try {
    return await ask(place);
  } catch (error) {
    if (place !== undefined && GatewayError.is(error) && error.code === 'invalid_request')
      return ask(undefined);
    if (error instanceof TailEnded) throw new GatewayError('scope_missing', error.message);
    throw error;
  }
}

/** Where a client goes on that was cut off a short while ago; see `eventId`. */
function recentPlace(lastEventId: string | undefined, now: number): string | undefined {
  const [, at, place] = /^(\d{1,15})-([\w~.-]{1,64})$/.exec(lastEventId ?? '') ?? [];
  return at !== undefined && Math.abs(now - Number(at)) <= recentMs ? place : undefined;
}

function restarting(): GatewayError {
  return new GatewayError('shutting_down', restart.message);
}
