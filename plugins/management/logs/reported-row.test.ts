import assert from 'node:assert/strict';
import { test } from 'node:test';
import { acceptance, reportedLine } from './reported.ts';

const key = {
  id: 'k',
  name: 'n',
  kind: 'workspace-service' as const,
  organisationId: 'o',
  workspaceId: 'w',
  userId: '',
  scopes: [],
  expiresAt: null,
};
const accepted = acceptance(key, Date.parse('2026-11-22T10:00:00.123Z'), 'id-1');

test('a reported row is accepted in the name of its key, at the time of the report', () => {
  assert.deepEqual(accepted, {
    id: 'id-1',
    created_at: '2026-11-22 10:00:00.123',
    organisation_id: 'o',
    workspace_id: 'w',
    api_key_id: 'k',
    user_id: '',
  });
  assert.match(acceptance(key, 0).id, /^[0-9a-f]{8}-[0-9a-f]{4}-4/);
  assert.notEqual(acceptance(key, 0).id, acceptance(key, 0).id);
});

test('what says nothing is left out of the line, and what is too long is cut between characters', () => {
  const line = reportedLine({
    ...accepted,
    source: 'otel',
    model: `${'m'.repeat(511)}😀`,
    span_name: 's'.repeat(300),
    status: 200,
    retries: -1,
    stream: false,
    is_success: true,
    latency_ms: 1.5,
    prompt_tokens: 0,
    completion_tokens: -3,
    upstream_ms: Number.NaN,
    dropped: [],
    metadata: {},
    limits: ['a'],
  });
  assert.ok(!line.includes('\n'));
  assert.deepEqual(JSON.parse(line), {
    id: 'id-1',
    created_at: '2026-11-22 10:00:00.123',
    organisation_id: 'o',
    workspace_id: 'w',
    api_key_id: 'k',
    source: 'otel',
    model: 'm'.repeat(511),
    span_name: 's'.repeat(255),
    status: 200,
    retries: -1,
    is_success: true,
    latency_ms: 1.5,
    limits: ['a'],
  });
});
