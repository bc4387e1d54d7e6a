import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { googleGemini } from '../../../adapters/dialects/google-gemini/index.ts';
import { withModelInPath } from './apply-param-edits.ts';

const method = ':generateContent';
const cases: readonly [path: string, from: string, to: string, expected: string][] = [
  [`/v1beta/models/a${method}`, 'a', 'b', `/v1beta/models/b${method}`],
  [`/models/a:streamGenerateContent`, 'a', 'b', '/models/b:streamGenerateContent'],
  [`/proxy/v1/models/a${method}`, 'a', 'b', `/proxy/v1/models/b${method}`],
  ['/v1beta/models/a', 'a', 'b', '/v1beta/models/b'],
  [`/v1beta/models/models${method}`, 'models', 'b', `/v1beta/models/b${method}`],
  [`/v1beta/models/v1beta${method}`, 'v1beta', 'b', `/v1beta/models/b${method}`],
  ['/v1beta/models%2Fa%3AgenerateContent', 'a', 'b', '/v1beta/models/b%3AgenerateContent'],
  [`/v1beta/models/gemini%2D2.5${method}`, 'gemini-2.5', 'b', `/v1beta/models/b${method}`],
  [`/v1beta/models/meta/llama${method}`, 'meta/llama', 'b', `/v1beta/models/b${method}`],
  [`/v1beta/models/meta%2Fllama${method}`, 'meta/llama', 'x/y', `/v1beta/models/x/y${method}`],
  [`/v1beta/models/llama:8b${method}`, 'llama:8b', 'llama:70b', `/v1beta/models/llama:70b${method}`],
  [`/v1beta/models/a${method}`, 'a', 'models/b', `/v1beta/models/b${method}`],
  [`/v1beta/models/a${method}`, 'a', 'tunedModels/b', `/v1beta/tunedModels/b${method}`],
  [`/v1beta/tunedModels/a${method}`, 'tunedModels/a', 'b', `/v1beta/models/b${method}`],
  [
    `/v1/publishers/google/models/a${method}`,
    'publishers/google/models/a',
    'b',
    `/v1/publishers/google/models/b${method}`,
  ],
  [
    `/v1/projects/p/locations/l/publishers/google/models/a${method}`,
    'projects/p/locations/l/publishers/google/models/a',
    'claude-x@20250101',
    `/v1/projects/p/locations/l/publishers/google/models/claude-x@20250101${method}`,
  ],
  [
    `/v1/projects/p/locations/l/endpoints/1${method}`,
    'projects/p/locations/l/endpoints/1',
    'publishers/google/models/b',
    `/v1/publishers/google/models/b${method}`,
  ],
  [`/v1beta/models/a${method}`, 'a', 'x y?z#', `/v1beta/models/x%20y%3Fz%23${method}`],
  [
    `/v1beta/models/a${method}`,
    'a',
    '../../secrets',
    `/v1beta/models/%252E%252E/%252E%252E/secrets${method}`,
  ],
  [`/v1beta/models/a${method}`, 'other', 'b', `/v1beta/models/a${method}`],
  [`/v1beta/models/a${method}`, '', 'b', `/v1beta/models/a${method}`],
  [`/v1beta/models/a${method}`, 'a', '', `/v1beta/models/a${method}`],
  ['/v1beta/models/%E0%A4%A:x', '%E0%A4%A', 'b', '/v1beta/models/b:x'],
];

describe('withModelInPath', () => {
  for (const [path, from, to, expected] of cases)
    test(`${path} with ${to === '' ? 'nothing' : to}`, () =>
      assert.equal(withModelInPath(path, from, to), expected));

  test('the wire reads the new model from the new path, whatever the names are', () => {
    const name = fc.stringMatching(/^[A-Za-z0-9._@ %-]{1,12}$/).filter((text) => !/^\.+$/.test(text));
    const names = fc.tuple(
      name,
      name,
      fc.constantFrom('models/', 'tunedModels/', 'publishers/google/models/'),
    );
    fc.assert(
      fc.property(names, ([from, to, collection]) => {
        const path = `/v1beta/${collection}${encodeURIComponent(from)}:streamGenerateContent`;
        const read = googleGemini.readCall?.(path);
        const changed = googleGemini.readCall?.(withModelInPath(path, read?.model ?? '', to));
        assert.deepEqual(changed, {
          model: collection.startsWith('publishers') ? collection + to : to,
          stream: true,
        });
      }),
    );
  });
});
