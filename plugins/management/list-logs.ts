import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, Type, type Scope, type Static } from '../../core/pipeline/plugin.ts';
import type { LogRecord, TimeWindow } from '../../core/ports/analytics.ts';
import { mapInTurns } from '../../core/base/in-turns.ts';
import { visibilityIn } from './data-visibility.ts';
import { isoTime } from './iso-time.ts';
import { readCursor, writeCursor, type LogPlace } from './log-cursor.ts';
import { LogSummary, logSummary } from './log-summary.ts';
import { filterQuery, readFilter } from './request-filter.ts';
import { strict } from './text-schema.ts';

const defaultSize = 50;
const mostNumbered = 10_000;
/** They may have half a megabyte each. */
const mostBodies = 50;
/** Entries without bodies that are written in a turn. */
const summariesAtOnce = 16;

const Order = Type.Union([Type.Literal('newest'), Type.Literal('oldest')], {
  description: 'Which entries come first. Default `newest`.',
});

const Query = Type.Object(
  {
    ...filterQuery,
    order: Type.Optional(Order),
    page_size: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 200, description: `Entries on a page. Default ${defaultSize}.` }),
    ),
    cursor: Type.Optional(
      Type.String({ minLength: 1, maxLength: 512, description: '`next_cursor` of the page before.' }),
    ),
    current_page: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: mostNumbered,
        description: `Page, from 0, among the first ${mostNumbered} entries; \`cursor\` reaches all of them, and costs less.`,
      }),
    ),
    include: Type.Optional(
      Type.Literal('bodies', {
        description: `What was sent and answered, too; of at most ${mostBodies} entries at once, and not with \`current_page\`.`,
      }),
    ),
    include_total: Type.Optional(
      Type.Boolean({ description: 'How many entries there are, which has to be counted.' }),
    ),
  },
  strict,
);

const Reply = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(LogSummary),
  next_cursor: Type.Union([Type.String(), Type.Null()], { description: 'Null on the last page.' }),
  has_more: Type.Boolean(),
  total: Type.Optional(Type.Integer({ description: 'Only when `include_total` asked for it.' })),
});

/** `GET /logs`: the entries that the key may see, by pages. */
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
      if (skipped + size > mostNumbered) throw beyond();
      const bodies = include === 'bodies';
      if (bodies && size > mostBodies)
        throw refused(
          'page_size',
          `With bodies, a page has at most ${mostBodies} entries. Give a smaller "page_size".`,
        );
      if (bodies && skipped > 0)
        throw refused('current_page', 'Numbered pages come without bodies. Go on with "next_cursor".');
      const order = place?.order ?? query.order ?? 'newest';
      const question = { window, visibility, filter };
      const [found, total] = await Promise.all([
        analytics.logs({
          ...{
            ...question,
            order,
            limit: Math.min(skipped + size + 1, mostNumbered),
            bodies,
          },
          ...(place !== undefined && { after: place.after }),
        }),
        query.include_total === true ? analytics.countLogs(question) : undefined,
      ]);
      const page = found.slice(skipped, skipped + size);
      const last = page.at(-1);
      const hasMore = last !== undefined && found.length > Math.min(skipped + size, mostNumbered - 1);
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
    throw refused(
      'current_page',
      '"cursor" and "current_page" both say where the page begins. Give one of them.',
    );
  if (query.order !== undefined && query.order !== place.order)
    throw refused(
      'order',
      `This cursor goes through the ${place.order} entries first. Leave "order" out, or begin anew.`,
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

function beyond(): GatewayError {
  return refused(
    'current_page',
    `Numbered pages end behind ${mostNumbered} entries. Go on with "next_cursor", or ask for a shorter time.`,
  );
}

function refused(param: string, message: string): GatewayError {
  return new GatewayError('invalid_request', message, { param });
}
