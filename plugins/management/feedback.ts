import { randomUUID } from 'node:crypto';
import { reachOf } from '../../core/access/scopes.ts';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, Type } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import { newFeedback } from '../../core/organisation/new-feedback.ts';
import { rowTime } from '../../core/base/row-time.ts';
import type { FeedbackRow } from '../../core/ports/request-row.ts';
import { keepRows } from './logs/reported-row.ts';
import { plainObject, refusedBody, strict } from './shared/fields.ts';
import { noSuchRecord } from './shared/records.ts';

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

/** `POST /feedback` and `PUT /feedback/{id}`: write rows of the analytics store through the journal. */
export function feedbackRoutes(scope: Scope): readonly RouteDefinition[] {
  return [createRoute(scope), updateRoute(scope)];
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
      if (before === undefined) throw noSuchRecord('feedback', params.id);
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
