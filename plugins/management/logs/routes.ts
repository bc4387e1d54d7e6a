import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { LogCursor, LogRecord, TimeWindow } from '../../../core/ports/analytics.ts';
import { mapInTurns } from '../../../core/base/turns.ts';
import { dataVisibility, visibilityIn } from '../shared/data-visibility.ts';
import { isoTime } from '../shared/replies.ts';
import { LogReply, logReply, LogSummary, logSummary } from './record.ts';
import { filterQuery, readFilter } from '../shared/request-filter.ts';
import { strict } from '../shared/fields.ts';
import { sha256 } from '../../../core/base/bytes.ts';

/** The cursor of a list of logs. */
export const logCursor = { write: writeCursor, read: readCursor };

/** Start of the next page of a list of log entries. */
export interface LogPlace {
  readonly order: 'newest' | 'oldest';
  /** Window of the first page, so that all pages share it. */
  readonly window: TimeWindow;
  readonly after: LogCursor;
}

const checkLength = 8;
const written =
  /^(newest|oldest) (\d{1,15}) (\d{1,15}) (\d{1,15}) ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/;

/** The place as an opaque cursor for clients. */
function writeCursor({ order, window, after }: LogPlace): string {
  const text = `${order} ${window.from} ${window.to} ${after.createdAt} ${after.id}`;
  return Buffer.from(checkOf(text) + text).toString('base64url');
}

/** Inverse of `writeCursor`. Throws `invalid_request` for any other text. */
function readCursor(cursor: string): LogPlace {
  const whole = Buffer.from(cursor, 'base64url').toString();
  const text = whole.slice(checkLength);
  const [, order, from, to, createdAt, id = ''] = written.exec(text) ?? [];
  if (order === undefined || whole.slice(0, checkLength) !== checkOf(text)) {
    throw new GatewayError(
      'invalid_request',
      '"cursor" is not one of this gateway. Send the "next_cursor" of the previous page unchanged, or leave it out to start again.',
      { param: 'cursor' },
    );
  }
  return {
    order: order === 'oldest' ? 'oldest' : 'newest',
    window: { from: Number(from), to: Number(to) },
    after: { createdAt: Number(createdAt), id },
  };
}

/** Checksum against mistakes. It is no protection: a forged cursor shows no more than a filter does. */
function checkOf(text: string): string {
  return sha256(`log cursor ${text}`, 'base64url').slice(0, checkLength);
}

/** Time back from now within which an id is searched. */
const reachMs = 366 * 86_400_000;
/** Allowance for rows of replicas whose clock is ahead. */
const aheadMs = 3_600_000;
/** Single wait for rows that are not in the store yet. */
const settleMs = 2_000;
/** Age above which an entry without a body is complete: no body will follow. */
const freshMs = 10_000;

/** `GET /logs/{id}`: one request with its bodies. Also finds a request that has just ended. */
export function getLogRoute({
  analytics,
  clock,
  directory,
  journal,
  prices,
  router,
}: Scope): RouteDefinition {
  function mayBeOnItsWay(record: LogRecord | undefined): boolean {
    if (record === undefined) return journal.state('requests').pending > 0;
    if (record.body !== undefined || journal.state('bodies').pending === 0) return false;
    return clock.now() - Date.parse(isoTime(record.request.created_at)) < freshMs;
  }

  return defineRoute({
    id: 'logs.get',
    method: 'GET',
    path: '/logs/{id}',
    summary: 'One log entry with its tokens, cost, latency and bodies',
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
      if (record !== undefined) return logReply(record, { prices, router });
      throw new GatewayError(
        'resource_not_found',
        `No log entry "${params.id}" is visible to this key. Check the id; entries end with their retention.`,
      );
    },
  });
}

const defaultSize = 50;
const maxNumberedEntries = 10_000;
/** Largest page with bodies: an entry may have half a megabyte of them. */
const maxBodies = 50;
/** Longest preview of a request. */
export const previewCharacters = 160;
/** Entries without bodies that are written between two yields to other requests. */
const summariesAtOnce = 16;

const Order = Type.Union([Type.Literal('newest'), Type.Literal('oldest')], {
  description: 'Order of the entries. Default `newest`.',
});

const Query = Type.Object(
  {
    ...filterQuery,
    order: Type.Optional(Order),
    page_size: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 200, description: `Entries on a page. Default ${defaultSize}.` }),
    ),
    cursor: Type.Optional(
      Type.String({ minLength: 1, maxLength: 512, description: '`next_cursor` of the previous page.' }),
    ),
    current_page: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: maxNumberedEntries,
        description: `Page, from 0, among the first ${maxNumberedEntries} entries; \`cursor\` reaches all of them, and costs less.`,
      }),
    ),
    include: Type.Optional(
      Type.Union([Type.Literal('bodies'), Type.Literal('preview')], {
        description: `Include the bodies of requests and answers and the headers of requests, for at most ${maxBodies} entries at once; or a \`preview\` of each request, the first ${previewCharacters} characters of the last message of a user. Not with \`current_page\`.`,
      }),
    ),
    include_total: Type.Optional(
      Type.Boolean({ description: 'Include the total number of entries, which costs an extra count.' }),
    ),
  },
  strict,
);

const Reply = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(LogSummary),
  next_cursor: Type.Union([Type.String(), Type.Null()], { description: 'Null on the last page.' }),
  has_more: Type.Boolean(),
  total: Type.Optional(Type.Integer({ description: 'Present only with `include_total`.' })),
});

/** `GET /logs`: the entries that the key may see, in pages. */
export function listLogsRoute({ analytics, clock, directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'logs.list',
    method: 'GET',
    path: '/logs',
    summary: 'Logged requests, newest first, by filters, by pages',
    scope: ['logs.list', 'logs.view'],
    // Reads only.
    audit: null,
    query: Query,
    reply: Reply,
    async handle({ query, key, role }) {
      const visibility = visibilityIn({ key, role }, directory, query);
      const place = query.cursor === undefined ? undefined : placeOf(query.cursor, query);
      const { window, filter } = readFilter({ ...query, ...(place && timesOf(place.window)) }, clock.now());
      const { page_size: size = defaultSize, current_page: number = 0, include } = query;
      const skipped = number * size;
      if (skipped + size > maxNumberedEntries) throw pageTooFarError();
      const bodies = include === 'bodies';
      if (bodies && size > maxBodies)
        throw invalidParamError(
          'page_size',
          `With bodies, a page has at most ${maxBodies} entries. Give a smaller "page_size".`,
        );
      if (include !== undefined && skipped > 0)
        throw invalidParamError(
          'current_page',
          'Numbered pages come without bodies and previews. Go on with "next_cursor".',
        );
      const order = place?.order ?? query.order ?? 'newest';
      const question = { window, visibility, filter };
      const [found, total] = await Promise.all([
        analytics.logs({
          ...question,
          order,
          limit: Math.min(skipped + size + 1, maxNumberedEntries),
          bodies,
          ...(include === 'preview' && { preview: previewCharacters }),
          ...(place !== undefined && { after: place.after }),
        }),
        query.include_total === true ? analytics.countLogs(question) : undefined,
      ]);
      const page = found.slice(skipped, skipped + size);
      const last = page.at(-1);
      const hasMore = last !== undefined && found.length > Math.min(skipped + size, maxNumberedEntries - 1);
      return {
        object: 'list' as const,
        data: await mapInTurns(
          page,
          (record) => logSummary(record, { bodies }),
          bodies ? 1 : summariesAtOnce,
        ),
        next_cursor: hasMore ? writeCursor({ order, window, after: cursorOf(last) }) : null,
        has_more: hasMore,
        ...(total !== undefined && { total }),
      };
    },
  });
}

function placeOf(cursor: string, query: Static<typeof Query>): LogPlace {
  const place = readCursor(cursor);
  if (query.current_page !== undefined)
    throw invalidParamError(
      'current_page',
      '"cursor" and "current_page" both say where the page begins. Give one of them.',
    );
  if (query.order !== undefined && query.order !== place.order)
    throw invalidParamError(
      'order',
      `This cursor goes through the ${place.order} entries first. Leave "order" out, or start again without a cursor.`,
    );
  return place;
}

function timesOf({ from, to }: TimeWindow) {
  return {
    time_of_generation_min: new Date(from).toISOString(),
    time_of_generation_max: new Date(to).toISOString(),
  };
}

function cursorOf({ request }: LogRecord) {
  return { createdAt: Date.parse(isoTime(request.created_at)), id: request.id };
}

function pageTooFarError(): GatewayError {
  return invalidParamError(
    'current_page',
    `Numbered pages end after ${maxNumberedEntries} entries. Continue with "next_cursor", or select a shorter time.`,
  );
}

function invalidParamError(param: string, message: string): GatewayError {
  return new GatewayError('invalid_request', message, { param });
}
