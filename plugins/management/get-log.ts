import { defineRoute, GatewayError, Type, type Scope } from '../../core/pipeline/plugin.ts';
import type { LogRecord } from '../../core/ports/analytics.ts';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { dataVisibility } from './data-visibility.ts';
import { isoTime } from './iso-time.ts';
import { LogReply, logReply } from './log-record.ts';

/** How far back an id is looked for. */
const reachMs = 366 * 86_400_000;
/** Rows of other replicas may carry a clock that is ahead. */
const aheadMs = 3_600_000;
/** How long to wait, once, for rows that are still on their way to the store. */
const settleMs = 2_000;
/** A body missing from an entry older than this is not on its way any more. */
const freshMs = 10_000;

/** `GET /logs/{id}`: one request with its bodies. Finds a request that has only just ended, too. */
export function getLogRoute({ analytics, clock, directory, journal }: Scope): RouteDefinition {
  function mayBeOnItsWay(record: LogRecord | undefined): boolean {
    if (record === undefined) return journal.state('requests').pending > 0;
    if (record.body !== undefined || journal.state('bodies').pending === 0) return false;
    return clock.now() - Date.parse(isoTime(record.request.created_at)) < freshMs;
  }

  return defineRoute({
    id: 'logs.get',
    method: 'GET',
    path: '/logs/{id}',
    summary: 'One logged request with its tokens, cost, latency and bodies',
    scope: 'logs.view',
    // Reads only.
    audit: null,
    params: Type.Object({
      id: Type.String({
        format: 'uuid',
        description: 'The request id, as in the response header `request-id`.',
      }),
    }),
    reply: LogReply,
    async handle({ params, key, role }) {
      const now = clock.now();
      const window = { from: now - reachMs, to: now + aheadMs };
      const visibility = dataVisibility({ key, role }, directory);
      const find = () => analytics.requestById(params.id, window, visibility);
      let record = await find();
      if (mayBeOnItsWay(record)) {
        await journal.settle(settleMs);
        record = await find();
      }
      if (record !== undefined) return logReply(record);
      throw new GatewayError(
        'resource_not_found',
        `No log entry "${params.id}" is visible to this key. Check the id; entries end with their retention.`,
      );
    },
  });
}
