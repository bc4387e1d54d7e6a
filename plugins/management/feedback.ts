import { randomUUID } from 'node:crypto';
import { reachOf } from '../../core/access/scopes.ts';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, type Static, Type } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import { newFeedback } from '../../core/organisation/new-feedback.ts';
import { rowTime } from '../../core/base/row-time.ts';
import type { FeedbackRow } from '../../core/ports/request-row.ts';
import type { GivenFeedback } from '../../core/ports/analytics.ts';
import { keepRows } from './logs/reported.ts';
import { analyticsQuestion } from './shared/data-visibility.ts';
import { plainObject, refusedBody, strict } from './shared/fields.ts';
import { storedRecords } from './shared/records.ts';
import { listReplies } from './shared/replies.ts';
import { filterQuery } from './shared/request-filter.ts';

const opinion = {
  value: Type.Integer({ minimum: -10, maximum: 10, examples: [5], description: 'From -10 to 10.' }),
  weight: Type.Optional(
    Type.Number({
      minimum: 0,
      maximum: 1,
      description: 'Weight of the value. Default: 1, or the previous weight.',
    }),
  ),
  metadata: Type.Optional(
    Type.Record(Type.String({ maxLength: 255 }), Type.Unknown(), {
      maxProperties: 50,
      examples: [{ comment: 'helpful' }],
      description: 'At most 50 values by name, 16 KiB as JSON.',
    }),
  ),
};

const One = Type.Object(
  {
    trace_id: Type.String({
      minLength: 1,
      maxLength: 255,
      examples: ['0198a1c2-7b3e-7c4d-8e5f-6a7b8c9d0e1f'],
      description: 'Id of the trace: the trace id of the request, else its request id.',
    }),
    ...opinion,
  },
  strict,
);

/** Body that gives feedback: one, or a list of at most 100. */
const CreateFeedback = Type.Union([One, Type.Array(One, { minItems: 1, maxItems: 100 })]);

/** Body that changes feedback. Some clients repeat the id of the path. */
const UpdateFeedback = Type.Object(
  { ...opinion, feedback_id: Type.Optional(Type.String({ maxLength: 64 })) },
  strict,
);

/** Answer of both routes. */
const FeedbackReply = Type.Object({
  status: Type.Literal('success'),
  message: Type.String(),
  feedback_ids: Type.Array(Type.String()),
});

/** Keys that may send requests may also give feedback. */
const scopes = ['feedbacks.write', 'completions.write'];
const maxMetadataLength = 16_384;
/** Time back from now within which an id is searched. */
const reachMs = 366 * 86_400_000;
/** Allowance for rows of replicas whose clock is ahead. */
const aheadMs = 3_600_000;
/** Single wait for rows that are not in the store yet. */
const settleMs = 2_000;

/** `GET /feedback`, and `POST /feedback` and `PUT /feedback/{id}`, which write rows of the analytics store through the journal. */
export function feedbackRoutes(scope: Scope): readonly RouteDefinition[] {
  return [createRoute(scope), updateRoute(scope), listRoute(scope)];
}

const defaultPageSize = 50;

const ListQuery = Type.Object(
  {
    ...filterQuery,
    value_min: Type.Optional(Type.Integer({ minimum: -10, maximum: 10, description: 'Lowest value.' })),
    value_max: Type.Optional(Type.Integer({ minimum: -10, maximum: 10, description: 'Highest value.' })),
    current_page: Type.Optional(Type.Integer({ minimum: 0, maximum: 10_000, description: 'Page, from 0.' })),
    // Each may have 16 KiB of metadata.
    page_size: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 100, description: `Default ${defaultPageSize}.` }),
    ),
  },
  strict,
);

const Given = Type.Object({
  object: Type.Literal('feedback'),
  id: Type.String({ description: 'For `PUT /feedback/{id}`.' }),
  created_at: Type.String({ description: 'ISO 8601.' }),
  revision: Type.Integer({ description: 'From 1; changes count.' }),
  workspace_id: Type.String(),
  api_key_id: Type.String({ description: 'Key that gave it, or changed it last.' }),
  user_id: Type.String(),
  trace_id: Type.String(),
  value: Type.Integer(),
  weight: Type.Number(),
  metadata: Type.Record(Type.String(), Type.Unknown()),
});

function listRoute(scope: Scope): RouteDefinition {
  return defineRoute({
    id: 'feedback.list',
    method: 'GET',
    path: '/feedback',
    summary: 'Feedback of a period, newest first, by what it says and by the requests that it is about',
    scope: 'feedbacks.read',
    // Reads only.
    audit: null,
    query: ListQuery,
    reply: Type.Object({ ...listReplies.of, data: Type.Array(Given) }),
    async handle({ query, key, role }) {
      const { value_min: min, value_max: max, page_size: limit = defaultPageSize } = query;
      const { total, rows } = await scope.analytics.feedback({
        ...analyticsQuestion({ query, key, role }, scope),
        value: { ...(min !== undefined && { min }), ...(max !== undefined && { max }) },
        limit,
        offset: (query.current_page ?? 0) * limit,
      });
      return { object: 'list' as const, total, data: rows.map(givenReply) };
    },
  });
}

function givenReply({ row, givenAt }: GivenFeedback): Static<typeof Given> {
  const { feedback_id: id, revision, workspace_id, api_key_id, user_id, trace_id, value, weight } = row;
  return {
    ...{ object: 'feedback' as const, id, created_at: new Date(givenAt).toISOString(), revision },
    ...{ workspace_id, api_key_id, user_id, trace_id, value, weight },
    metadata: JSON.parse(row.metadata || '{}') as Record<string, unknown>,
  };
}

function createRoute({ clock, journal }: Scope): RouteDefinition {
  return defineRoute({
    id: 'feedback.create',
    method: 'POST',
    path: '/feedback',
    summary: 'Creates feedback on the answers of a trace',
    scope: scopes,
    // A row of the log, like the request that it is about: nothing that is administered changes.
    audit: null,
    body: CreateFeedback,
    reply: FeedbackReply,
    async handle({ body, key }) {
      const isList = Array.isArray(body);
      const rows = (isList ? body : [body]).map((one, index): FeedbackRow => {
        const metadata = metadataText(one.metadata ?? {}, isList ? `/${index}/metadata` : '/metadata');
        const { trace_id, value, weight = 1 } = one;
        return newFeedback(key, { trace_id, value, weight, metadata }, clock.now());
      });
      await appendFeedback(journal, key, rows);
      return savedReply(rows);
    },
  });
}

function updateRoute({ clock, journal, analytics }: Scope): RouteDefinition {
  return defineRoute({
    id: 'feedback.update',
    method: 'PUT',
    path: '/feedback/{id}',
    summary: 'Updates feedback; the value is required, other omitted fields stay unchanged',
    scope: scopes,
    // A row of the log, like the request that it is about: nothing that is administered changes.
    audit: null,
    params: Type.Object({
      id: Type.String({ format: 'uuid', description: 'Id from the answer of `POST /feedback`.' }),
    }),
    body: UpdateFeedback,
    reply: FeedbackReply,
    async handle({ params, body, key }) {
      if (body.feedback_id !== undefined && body.feedback_id !== params.id)
        throw refusedBody([{ path: '/feedback_id', message: 'is not what the path says; leave it out' }]);
      const metadata = body.metadata && metadataText(body.metadata, '/metadata');
      const now = clock.now();
      const window = { from: now - reachMs, to: now + aheadMs };
      const find = () => analytics.feedbackById(params.id, window, { ...reachOf(key), asker: key.id });
      if (journal.state('feedback').pending > 0) await journal.settle(settleMs);
      const before = await find();
      if (before === undefined) throw storedRecords.noSuch('feedback', params.id);
      const row: FeedbackRow = {
        ...before,
        id: randomUUID(),
        created_at: rowTime(now),
        revision: before.revision + 1,
        api_key_id: key.id,
        user_id: key.userId,
        value: body.value,
        weight: body.weight ?? before.weight,
        metadata: metadata ?? before.metadata,
      };
      await appendFeedback(journal, key, [row]);
      return savedReply([row]);
    },
  });
}

function appendFeedback(
  journal: Scope['journal'],
  key: KeyRecord,
  rows: readonly FeedbackRow[],
): Promise<void> {
  const lines = rows.map((row) => ({ table: 'feedback', line: JSON.stringify(row) }) as const);
  return keepRows(journal, lines, key.workspaceId);
}

function metadataText(metadata: Readonly<Record<string, unknown>>, pointer: string): string {
  const text = JSON.stringify(plainObject(metadata, pointer));
  if (text.length <= maxMetadataLength) return text;
  throw refusedBody([{ path: pointer, message: `is longer than ${maxMetadataLength} characters as JSON` }]);
}

function savedReply(rows: readonly FeedbackRow[]) {
  const ids = rows.map(({ feedback_id: id }) => id);
  return { status: 'success' as const, message: 'Feedback was saved.', feedback_ids: ids };
}
