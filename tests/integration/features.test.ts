import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { featureVariables } from '../../core/access/features.ts';
import { send } from '../kit/http-kit.ts';
import { ownerKey, runWeir, startWeir, stopEverything } from '../kit/process-kit.ts';

after(stopEverything);

const yaml = {
  version: 1,
  storage: { analytics: { url: 'none:' } },
  pipelines: [
    { name: 'administration', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
    {
      name: 'gateway',
      match: { path: '/**' },
      plugins: [
        'auth',
        { 'request-parameters': { params: { blockedKeys: ['seed'] } } },
        { provider: { default: 'mock' } },
      ],
    },
  ],
};

const headers = { 'x-service-api-key': ownerKey };
const chat = { model: 'mock-gpt', seed: 7, messages: [{ role: 'user', content: 'Hi' }] };

describe('features', () => {
  test('everything off: a line for each at start, no guardrail, no administration, and all else as before', async () => {
    const off = Object.fromEntries(Object.values(featureVariables).map((variable) => [variable, 'OFF']));
    const { url, stdout } = await startWeir({ yaml, env: off });
    for (const variable of Object.values(featureVariables))
      assert.match(stdout(), new RegExp(`^  Off +${variable}=OFF: `, 'm'));
    assert.match(stdout(), /guardrails do not run \(request-parameters\)/);
    const asked = await Promise.all([
      send(url, { path: '/v1/chat/completions', body: chat, headers }),
      send(url, { path: '/v1/admin/workspaces', headers }),
      send(url, { path: '/v1/logs/1', headers }),
      ...['/healthz', '/readyz', '/metrics', '/openapi.json', '/docs'].map((path) => send(url, { path })),
    ]);
    assert.deepEqual(
      asked.map(({ status }) => status),
      [200, 403, 403, 200, 200, 200, 200, 200],
    );
    const said = 'The administration API is switched off: API_ACCESS_ENABLED is OFF.';
    for (const refused of asked.slice(1, 3))
      assert.ok(refused.json().data.message.startsWith(said), refused.text);
  });

  test('everything on: not a word about it, and guardrails refuse', async () => {
    const { url, stdout } = await startWeir({ yaml, env: { GUARDRAILS_ENABLED: 'on' } });
    assert.doesNotMatch(stdout(), /OFF/);
    const { status } = await send(url, { path: '/v1/chat/completions', body: chat, headers });
    assert.equal(status, 446);
  });

  test('a value that is neither ends the start with one sentence', async () => {
    const ended = await runWeir(['start', '--data', 'data', '--port', '0'], {
      env: { SCIM_ENABLED: 'perhaps' },
    });
    assert.equal(ended.code, 1);
    assert.match(ended.stderr, /SCIM_ENABLED must be ON or OFF; it is "perhaps"\./);
    assert.equal(ended.stderr.trim().split('\n').length, 1, ended.stderr);
    assert.equal(ended.stdout, '');
  });
});
