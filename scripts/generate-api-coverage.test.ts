import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { describe, it } from 'node:test';
import { defineRoute, Type } from '../core/pipeline/plugin.ts';
import { contributedRoutes } from '../tests/kit/openapi-kit.ts';
import {
  apiCoverage,
  coverageCommand,
  missingOperations,
  recordedCalls,
  recordCommand,
} from './generate-api-coverage.ts';
import { operationKey } from './wanted-operations.ts';

const route = (method: 'GET' | 'POST', path: string, scope: string) =>
  defineRoute({
    id: 'a.b',
    method,
    path,
    summary: 's',
    scope,
    audit: null,
    reply: Type.Object({}),
    handle: () => ({}),
  });

describe('docs/api-coverage.md', async () => {
  const routes = await contributedRoutes();

  it('is what the routes are', async () => {
    const written = await readFile(new URL('../docs/api-coverage.md', import.meta.url), 'utf8');
    assert.equal(written, await apiCoverage(routes), `Run: ${coverageCommand}`);
  });

  it('names a test for every route, and files that exist', () => {
    const uncalled = routes.map((one) => operationKey(one)).filter((key) => recordedCalls[key] === undefined);
    assert.deepEqual(uncalled, [], `No recorded test calls these. Run: ${recordCommand}`);
    const files = new Set(Object.values(recordedCalls).map(({ file }) => file));
    const missing = [...files].filter((file) => !existsSync(new URL(`../${file}`, import.meta.url)));
    assert.deepEqual(missing, [], `These files are gone. Run: ${recordCommand}`);
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
    assert.match(text, /\| POST \| `\/feedback` \| `feedbacks\.write` \| `[a-z/-]+\.test\.ts`: /);
    assert.match(text, /\| PUT \| `\/feedback\/\{id\}` \| not served yet \| \|/);
    assert.match(
      text,
      /\| POST \| `\/api-keys\/\{type\}\/\{sub-type\}` \| `workspace_user_api_keys\.create`/,
    );
    assert.match(text, /## Beside these[^]*`\/cache` \| `cache\.read`/);
    assert.match(text, /\| POST \| `\/chat\/completions` \| of providers \| `tests\//);
    const missing = missingOperations(routes).map(({ method, path }) => `${method} ${path}`);
    assert.ok(missing.includes('PUT /feedback/{id}'));
    assert.ok(!missing.includes('GET /prompts/partials'));
    assert.ok(!missing.includes('POST /chat/completions'));
  });
});
