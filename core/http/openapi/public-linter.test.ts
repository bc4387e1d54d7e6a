import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { wholeDocument } from '../../../tests/kit/openapi-kit.ts';

const rules = {
  // It belongs to whoever runs it.
  'info-license': 'off',
  // Their names say it all.
  'tag-description': 'off',
  // It forbids further members in each part of an `allOf`, which the parts of a chat request are for one another;
  // `document.test.ts` validates every example as JSON Schema says.
  'no-invalid-media-type-examples': { severity: 'error', allowAdditionalProperties: true },
} as const;

/** Rules that are kept everywhere but here. */
const exceptions: readonly (readonly [rule: string, pointer: string])[] = [
  // 101 is how a WebSocket begins.
  ['operation-2xx-response', '#/paths/~1realtime/get/responses'],
  // Open to anybody, without anything that could be wrong in a request.
  ['operation-4xx-response', '#/paths/~1healthz/get/responses'],
  ['operation-4xx-response', '#/paths/~1readyz/get/responses'],
  // Existing clients know partials under these paths: a word is found before a parameter (`route-table.test.ts`).
  ['no-ambiguous-paths', '#/paths/~1prompts~1{promptId}~1versions'],
  ['no-ambiguous-paths', '#/paths/~1prompts~1{promptId}~1makeDefault'],
  ['no-ambiguous-paths', '#/paths/~1prompts~1{promptId}~1render'],
];

async function complaints(document: unknown): Promise<readonly string[]> {
  const config = await createConfig({ extends: ['recommended'], rules });
  const source = JSON.stringify(document);
  const problems = await lintFromString({ source, absoluteRef: '/openapi.json', config });
  return problems
    .map(({ ruleId, message, location }) => ({ ruleId, message, pointer: location[0]?.pointer ?? '' }))
    .filter(({ ruleId, pointer }) => !exceptions.some(([rule, at]) => rule === ruleId && at === pointer))
    .map(({ ruleId, message, pointer }) => `${ruleId} at ${pointer}: ${message}`);
}

test('a public linter finds nothing wrong with the document', async () => {
  const { document } = await wholeDocument();
  assert.deepEqual(await complaints(document), []);
  const [path = ''] = Object.keys(document.paths);
  const broken = { ...document, paths: { [path]: { get: { responses: {} } } } };
  assert.notDeepEqual(await complaints(broken), []);
});
