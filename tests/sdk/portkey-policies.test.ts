// Guardrails and feedback as users of the `portkey-ai` client administer them: with only the base URL changed.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Portkey } from 'portkey-ai';
import type { FeedbackRow } from '../../core/ports/request-row.ts';
import { openResourcesOfFile, startAdministration } from '../kit/administration-kit.ts';
import { failureOf } from './sdk-setting.ts';

const resources = await openResourcesOfFile();

/** A client with the service key of a workspace; `found` is what the analytics store knows of some feedback. */
async function clientOf(t: TestContext, found?: FeedbackRow) {
  const analytics = { feedbackById: () => Promise.resolve(found) };
  const { gateway, tenant, call } = await startAdministration(t, resources, { analytics });
  const { key, workspaceId } = await tenant('sdk');
  const service = key({ kind: 'workspace-service' });
  // The key is known to the gateway from its first call on.
  await call(service, { path: '/guardrails' });
  const portkey = new Portkey({ apiKey: `wk_${service.id}`, baseURL: `${gateway.url}/v1` });
  return { portkey, workspaceId };
}

test('guardrails', async (t) => {
  const { portkey, workspaceId } = await clientOf(t);
  const { guardrails } = portkey;
  const feedback = (value: number) => ({ feedback: { value, weight: 1, metadata: '' } });
  const actions = { deny: true, async: false, on_success: feedback(5), on_fail: feedback(-5) };
  const check = {
    id: 'default.requestParametersCheck',
    parameters: { params: { blockedKeys: ['logit_bias'] } },
    name: 'No bias',
    is_enabled: true,
  };
  const made = await guardrails.create({
    name: 'rules',
    checks: [check],
    actions,
    workspace_id: workspaceId,
  });
  assert.match(made.slug, /^guard_rules-/);
  assert.ok(made.version_id);
  const stored = await guardrails.retrieve({ guardrail_id: made.id });
  assert.deepEqual([stored.name, stored.actions.deny, stored.checks[0]?.name], ['rules', true, 'No bias']);
  const changed = await guardrails.update({ guardrail_id: made.id, name: 'rules of ours' });
  assert.notEqual(changed.version_id, made.version_id);
  const { total, data } = await guardrails.list({
    workspace_id: workspaceId,
    page_size: 10,
    current_page: 0,
  });
  assert.deepEqual([total, data[0]?.name], [1, 'rules of ours']);
  await guardrails.delete({ guardrail_id: made.slug });
  const gone = await failureOf(guardrails.retrieve({ guardrail_id: made.id }));
  assert.equal(Reflect.get(gone, 'status'), 404);
});

test('feedback', async (t) => {
  const id = '0198a1c2-7b3e-7c4d-8e5f-6a7b8c9d0e1f';
  const { portkey } = await clientOf(t, {
    id,
    feedback_id: id,
    created_at: '2026-11-20 09:00:00.000',
    revision: 1,
    organisation_id: 'o',
    workspace_id: 'w',
    api_key_id: 'k',
    user_id: '',
    trace_id: 't',
    value: 1,
    weight: 1,
    metadata: '{}',
  });
  const one = await portkey.feedback.create({
    traceID: 'trace',
    value: 5,
    weight: 0.5,
    metadata: { a: 'b' },
  });
  assert.equal(one.status, 'success');
  assert.equal((Reflect.get(one, 'feedback_ids') as string[]).length, 1);
  const changed = await portkey.feedback.update({ feedbackID: id, value: -2 });
  assert.deepEqual(Reflect.get(changed, 'feedback_ids'), [id]);
  const refused = await failureOf(portkey.feedback.create({ traceID: 'trace', value: 11 }));
  assert.equal(Reflect.get(refused, 'status'), 400);
});
