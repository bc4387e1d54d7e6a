import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, it } from 'node:test';
import { defineRoute, Type } from '../core/pipeline/plugin.ts';
import { contributedRoutes } from '../tests/kit/openapi-kit.ts';
import { apiCoverage, coverageCommand, missingOperations, testOf } from './generate-api-coverage.ts';

const route = (method: 'GET' | 'POST', path: string, scope: string) =>
  defineRoute({
    ...{ id: 'a.b', method, path, summary: 's', scope, audit: null, reply: Type.Object({}) },
    handle: () => ({}),
  });

describe('docs/api-coverage.md', async () => {
  const routes = await contributedRoutes();

  it('is what the routes are', async () => {
    const written = await readFile(new URL('../docs/api-coverage.md', import.meta.url), 'utf8');
    assert.equal(written, await apiCoverage(routes), `Run: ${coverageCommand}`);
  });

  it('names a test for every route', () => {
    const unproved = routes.filter(({ path }) => testOf(path) === '').map(({ path }) => path);
    assert.deepEqual(unproved, []);
  });
});

describe('apiCoverage', () => {
  it('shows what is served, what is not, and what there is beside', async () => {
    const routes = [
      route('POST', '/feedback', 'feedbacks.write'),
      route('POST', '/api-keys/workspace/user', 'workspace_user_api_keys.create'),
      route('GET', '/prompts/partials', 'prompts.list'),
      route('GET', '/cache', 'cache.read'),
    ];
    const text = (await apiCoverage(routes)).replaceAll(/ +/g, ' ');
    assert.match(text, /\| POST \| `\/feedback` \| `feedbacks\.write` \| `plugins\/management\/feedback/);
    assert.match(text, /\| PUT \| `\/feedback\/\{id\}` \| not served yet \| \|/);
    assert.match(
      text,
      /\| POST \| `\/api-keys\/\{type\}\/\{sub-type\}` \| `workspace_user_api_keys\.create`/,
    );
    assert.match(text, /## Beside these[^]*`\/cache` \| `cache\.read`/);
    assert.match(text, /\| POST \| `\/chat\/completions` \| none \| `tests\//);
    const missing = missingOperations(routes).map(({ method, path }) => `${method} ${path}`);
    assert.ok(missing.includes('PUT /feedback/{id}'));
    assert.ok(!missing.includes('GET /prompts/partials'));
    assert.ok(!missing.includes('POST /chat/completions'));
  });
});
