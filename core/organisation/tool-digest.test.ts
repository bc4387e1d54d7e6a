import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseJson } from '../base/json.ts';
import { toolDigest } from './tool-digest.ts';

const tool = {
  name: 'find',
  title: 'Find',
  description: 'Finds.',
  inputSchema: { type: 'object', properties: { words: { type: 'string', maxLength: 10 } } },
  annotations: { readOnlyHint: true },
};

describe('the digest of a tool', () => {
  test('is another one with each member that a model reads', () => {
    const others = [
      { ...tool, title: 'Find!' },
      { ...tool, description: 'Finds and sends.' },
      { ...tool, inputSchema: { ...tool.inputSchema, required: ['words'] } },
      { ...tool, outputSchema: { type: 'object' } },
      { ...tool, annotations: { readOnlyHint: false } },
      { ...tool, annotations: {} },
    ];
    const digests = new Set([tool, ...others].map(toolDigest));
    assert.equal(digests.size, others.length + 1);
    for (const digest of digests) assert.match(digest ?? '', /^sha256:[0-9a-f]{64}$/);
  });

  test('is the same whatever the order of members, and for what no model reads', () => {
    const { inputSchema, ...rest } = tool;
    const { type, properties } = inputSchema;
    assert.equal(toolDigest({ inputSchema: { properties, type }, ...rest }), toolDigest(tool));
    const more = {
      ...tool,
      icons: [{ src: 'a' }],
      _meta: { a: 1 },
      annotations: { readOnlyHint: true, x: 1 },
    };
    assert.equal(toolDigest(more), toolDigest(tool));
  });

  test('is that of a handshake for long numbers too', () => {
    const text = '{"inputSchema":{"maximum":12345678901234567890}}';
    assert.equal(
      toolDigest(parseJson(text) as object & Record<string, unknown>),
      toolDigest(JSON.parse(text)),
    );
  });

  test('is none for one that is nested too deeply', () => {
    const deep: unknown = JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`);
    assert.equal(toolDigest({ inputSchema: deep }), undefined);
  });
});
