import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { openResourcesOfFile, startAdministration } from '../../tests/kit/administration-kit.ts';

const resources = await openResourcesOfFile();

const noGuardrail = /guardrails are stored and not enforced/i;

/** Says that it does not act, where people and programs look. */
function assertMarked(value: unknown, warning: RegExp): void {
  assert.ok(typeof value === 'object' && value !== null, 'there is no such object');
  const said = value as { readonly status?: unknown; readonly warning?: unknown };
  assert.equal(said.status, 'not enforced');
  assert.match(String(said.warning), warning);
}

describe('what is stored and does not act says so', () => {
  test('guardrails', async (t) => {
    const { call, tenant } = await startAdministration(t, resources);
    const { owner, workspaceId: workspace_id } = await tenant('guarded');
    const checks = [{ id: 'add-prefix', parameters: { prefix: 'Be brief.' } }];
    const body = { name: 'G', workspace_id, checks, actions: { deny: true } };
    const made = (await call(owner, { path: '/guardrails', body })).json();
    assertMarked(made, noGuardrail);
    const path = `/guardrails/${made.id}`;
    assertMarked((await call(owner, { path })).json(), noGuardrail);
    const query = `?workspace_id=${workspace_id}`;
    assertMarked((await call(owner, { path: `/guardrails${query}` })).json().data[0], noGuardrail);
    assertMarked((await call(owner, { method: 'PUT', path, body: { name: 'H' } })).json(), noGuardrail);
  });
});
