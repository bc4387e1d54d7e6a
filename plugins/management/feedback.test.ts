import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compileSchema } from '../../core/config/ajv.ts';
import { hasScope } from '../../core/access/scopes.ts';
import type { Scope } from '../../core/pipeline/plugin.ts';
import type { FeedbackRow } from '../../core/ports/request-row.ts';
import { testAnalytics, testKey, testRouteInput, testScope } from '../../tests/kit/plugin-kit.ts';
import { feedbackRoutes } from './feedback.ts';

const key = testKey({ userId: 'ann' });

function routes(overrides: Partial<Scope> = {}) {
  const { scope, journal, clock } = testScope(overrides);
  const [create, update] = feedbackRoutes(scope);
  assert.ok(create && update);
  return { create, update, journal, clock };
}

describe('POST /feedback', () => {
  test('puts one row into the journal', async () => {
    const { create, journal } = routes();
    const body = { trace_id: 'trace', value: -3, metadata: { comment: 'no', score: 1 } };
    const reply = await create.handle(testRouteInput({ body, key }));
    const [row, ...others] = journal.rows<FeedbackRow>('feedback');
    assert.ok(row);
    assert.deepEqual(others, []);
    const { id, feedback_id: feedbackId, ...rest } = row;
    assert.equal(id, feedbackId);
    assert.deepEqual(rest, {
      created_at: '2026-11-21 09:00:00.000',
      revision: 1,
      organisation_id: 'org-1',
      workspace_id: 'ws-1',
      api_key_id: 'key-1',
      user_id: 'ann',
      trace_id: 'trace',
      value: -3,
      weight: 1,
      metadata: '{"comment":"no","score":1}',
    });
    assert.deepEqual(reply, { status: 'success', message: 'Feedback was saved.', feedback_ids: [id] });
  });

  test('takes a list', async () => {
    const { create, journal } = routes();
    const body = [1, 2, 3].map((value) => ({ trace_id: `t${value}`, value, weight: 0.5 }));
    const { feedback_ids: ids } = (await create.handle(testRouteInput({ body, key }))) as {
      feedback_ids: string[];
    };
    const rows = journal.rows<FeedbackRow>('feedback');
    assert.deepEqual(
      rows.map(({ feedback_id: id, value }) => [id, value]),
      ids.map((id, index) => [id, index + 1]),
    );
    assert.equal(new Set(ids).size, 3);
  });

  test('says so when the journal has no room', async () => {
    const { create, journal } = routes();
    let shed = 0;
    journal.append = () => void (shed += 1);
    journal.state = () => ({ accepted: shed, stored: 0, pending: 0, shed });
    const body = { trace_id: 't', value: 1 };
    await assert.rejects(async () => create.handle(testRouteInput({ body, key })), {
      code: 'store_unavailable',
    });
  });

  const bodies: [unknown, boolean][] = [
    [{ trace_id: 't', value: 10, weight: 0 }, true],
    [{ trace_id: 't', value: 11 }, false],
    [{ trace_id: 't', value: 1.5 }, false],
    [{ trace_id: 't', value: 1, weight: 1.1 }, false],
    [{ trace_id: '', value: 1 }, false],
    [{ value: 1 }, false],
    [{ trace_id: 't', value: 1, other: 1 }, false],
    [[], false],
    [[{ trace_id: 't', value: 1 }], true],
  ];
  for (const [body, isRight] of bodies) {
    test(`${isRight ? 'takes' : 'refuses'} ${JSON.stringify(body)}`, () => {
      const schema = routes().create.body;
      assert.ok(schema);
      assert.equal(compileSchema(schema)(body).length === 0, isRight);
    });
  }

  test('refuses metadata that is too long', async () => {
    const body = { trace_id: 't', value: 1, metadata: { text: 'x'.repeat(17_000) } };
    await assert.rejects(async () => routes().create.handle(testRouteInput({ body, key })), {
      code: 'invalid_request',
      param: '/metadata',
    });
  });

  test('is for keys of workspaces', () => {
    const { scope: scopes } = routes().create;
    const may = (kind: 'organisation-service' | 'workspace-service' | 'workspace-user'): boolean =>
      [scopes].flat().some((scope) => hasScope(testKey({ kind, scopes: ['*'] }), scope));
    assert.deepEqual(
      [may('organisation-service'), may('workspace-service'), may('workspace-user')],
      [false, true, true],
    );
  });
});

describe('PUT /feedback/{id}', () => {
  const id = '0198a1c2-7b3e-7c4d-8e5f-6a7b8c9d0e1f';
  const stored: FeedbackRow = {
    id,
    feedback_id: id,
    created_at: '2026-11-20 09:00:00.000',
    revision: 4,
    organisation_id: 'org-1',
    workspace_id: 'ws-1',
    api_key_id: 'other',
    user_id: '',
    trace_id: 'trace',
    value: 1,
    weight: 0.5,
    metadata: '{"a":1}',
  };

  test('adds a row with the next revision', async () => {
    const asked: unknown[] = [];
    const analytics = testAnalytics({
      feedbackById(wanted, _window, visibility) {
        asked.push(wanted, visibility);
        return Promise.resolve(stored);
      },
    });
    const { update, journal } = routes({ analytics });
    journal.pending.feedback = 1;
    const reply = await update.handle(testRouteInput({ params: { id }, body: { value: 7 }, key }));
    const [row] = journal.rows<FeedbackRow>('feedback');
    assert.ok(row);
    assert.notEqual(row.id, id);
    assert.deepEqual(row, {
      ...stored,
      id: row.id,
      created_at: '2026-11-21 09:00:00.000',
      revision: 5,
      value: 7,
      api_key_id: 'key-1',
      user_id: 'ann',
    });
    assert.deepEqual(asked, [id, { organisationId: 'org-1', workspaceId: 'ws-1', asker: 'key-1' }]);
    assert.deepEqual((reply as { feedback_ids: string[] }).feedback_ids, [id]);
    assert.equal(journal.settled.length, 1, 'waits for rows on their way');
  });

  test('knows nothing of what is not there', async () => {
    const { update } = routes();
    const input = testRouteInput({ params: { id }, body: { value: 7 }, key });
    await assert.rejects(async () => update.handle(input), { code: 'resource_not_found' });
  });

  test('refuses another id in the body', async () => {
    const { update } = routes();
    const input = testRouteInput({ params: { id }, body: { value: 7, feedback_id: 'x' }, key });
    await assert.rejects(async () => update.handle(input), { code: 'invalid_request' });
  });
});
