import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import type { BodyEdits, UpstreamCallFacts, UpstreamPlan } from '../../../core/dialects/upstream-plan.ts';
import { googleVertexHost } from './host.ts';
import type { JsonObject } from '../json-reading.ts';

const settings = { vertex_project_id: 'p-1', vertex_region: 'europe-west3' };
const root = '/v1/projects/p-1/locations/europe-west3';

function hostFacts(model: string, given: Readonly<Record<string, string>> = settings): HostFacts {
  return { provider: 'north', model, quirks: {}, usageInStream: 'always', settings: given };
}

function plan(facts: Partial<UpstreamCallFacts>, host: HostFacts): UpstreamPlan {
  return googleVertexHost.plan({
    endpoint: 'chat.completions',
    spoken: 'openai-chat',
    method: 'POST',
    path: '/chat/completions',
    query: '',
    stream: false,
    host,
    ...facts,
  });
}

/** What a Responses client's request becomes. */
function translated(model: string, stream = false): { path: string; body: JsonObject } {
  const host = hostFacts(model);
  const found = plan({ endpoint: 'responses', spoken: 'openai-responses' }, host);
  assert.ok(found.kind === 'chat');
  const messages = [{ role: 'user', parts: [{ type: 'text', text: 'Hi' }] }] as const;
  const request: ChatRequest = { model, stream, messages, tools: [] };
  const { path, body } = found.codec.encodeRequest(request, host, new EncodeReport());
  return { path, body: JSON.parse(body.toString()) as JsonObject };
}

/** What a plan does to a body. */
function edited(found: UpstreamPlan, json: JsonObject): JsonObject {
  assert.ok(found.kind === 'pass' && found.edit !== undefined);
  const edits: BodyEdits = {
    json,
    set: ([name], value) => void (json[name as string] = value),
    remove: ([name]) => void delete json[name as string],
  };
  found.edit(edits);
  return json;
}

describe('models of Vertex AI', () => {
  const google = `${root}/publishers/google/models`;
  const openApi = `${root}/endpoints/openapi/chat/completions`;
  const rows: readonly (readonly [string, string, unknown])[] = [
    ['gemini-2.5-pro', `${google}/gemini-2.5-pro:generateContent`, undefined],
    ['google.gemini-2.5-pro', `${google}/gemini-2.5-pro:generateContent`, undefined],
    ['publishers/google/models/gemini-2.5-pro', `${google}/gemini-2.5-pro:generateContent`, undefined],
    [
      'projects/q/locations/global/publishers/google/models/m',
      '/v1/projects/q/locations/global/publishers/google/models/m:generateContent',
      undefined,
    ],
    [
      'projects/q/locations/us-east1/endpoints/77',
      '/v1/projects/q/locations/us-east1/endpoints/77:generateContent',
      undefined,
    ],
    [
      'claude-sonnet-4@20250514',
      `${root}/publishers/anthropic/models/claude-sonnet-4@20250514:rawPredict`,
      undefined,
    ],
    ['anthropic.claude-opus-4', `${root}/publishers/anthropic/models/claude-opus-4:rawPredict`, undefined],
    ['meta.llama-3.3-70b-instruct-maas', openApi, 'meta/llama-3.3-70b-instruct-maas'],
    ['deepseek-ai/deepseek-r1-maas', openApi, 'deepseek-ai/deepseek-r1-maas'],
    [
      'mistralai.mistral-small-2503',
      `${root}/publishers/mistralai/models/mistral-small-2503:rawPredict`,
      'mistral-small-2503',
    ],
    ['endpoints.42', `${root}/endpoints/42/chat/completions`, '42'],
    ['google.a/b?c', `${google}/a/b%3Fc:generateContent`, undefined],
  ];
  for (const [model, path, name] of rows)
    test(`${model} is asked at its own place`, () => {
      const asked = translated(model);
      assert.equal(asked.path, path);
      assert.equal(asked.body.model, name);
    });

  test('streams have methods of their own', () => {
    assert.equal(
      translated('gemini-2.5-pro', true).path,
      `${google}/gemini-2.5-pro:streamGenerateContent?alt=sse`,
    );
    const claude = translated('claude-opus-4', true);
    assert.equal(claude.path, `${root}/publishers/anthropic/models/claude-opus-4:streamRawPredict`);
    assert.equal(claude.body.anthropic_version, 'vertex-2023-10-16');
  });

  test('a missing setting is named; a complete resource name needs none', () => {
    for (const param of ['vertex_project_id', 'vertex_region']) {
      const host = hostFacts('gemini-2.5-pro', { ...settings, [param]: '' });
      const pass = (): unknown =>
        plan(
          { endpoint: 'generate-content', spoken: 'google-gemini', path: '/models/x:generateContent' },
          host,
        );
      assert.throws(pass, { code: 'invalid_request', param });
    }
    const complete = hostFacts('projects/q/locations/global/publishers/google/models/m', {});
    assert.equal(plan({ endpoint: 'generate-content', spoken: 'google-gemini' }, complete).kind, 'pass');
  });
});

describe('calls that pass', () => {
  test('a Gemini client reaches a Gemini model with its very bytes', () => {
    const facts = { endpoint: 'generate-content', spoken: 'google-gemini', stream: true } as const;
    const path = '/v1beta/models/gemini-2.5-pro:streamGenerateContent';
    const query = '?alt=sse&key=caller';
    assert.deepEqual(plan({ ...facts, path, query }, hostFacts('gemini-2.5-pro')), {
      kind: 'pass',
      path: `${root}/publishers/google/models/gemini-2.5-pro:streamGenerateContent?alt=sse`,
    });
    assert.equal(plan({ ...facts, path, query }, hostFacts('claude-opus-4')).kind, 'chat');
    const counted = {
      spoken: 'google-gemini',
      endpoint: 'proxy',
      path: '/v1beta/models/x:countTokens',
    } as const;
    assert.deepEqual(plan(counted, hostFacts('')), {
      kind: 'pass',
      path: `${root}/publishers/google/models/x:countTokens`,
    });
  });

  test('a Messages client reaches Claude; the model moves into the path', () => {
    const facts = {
      endpoint: 'messages',
      spoken: 'anthropic-messages',
      path: '/messages',
      stream: true,
    } as const;
    const found = plan(facts, hostFacts('anthropic.claude-opus-4'));
    assert.ok(found.kind === 'pass');
    assert.equal(found.path, `${root}/publishers/anthropic/models/claude-opus-4:streamRawPredict`);
    assert.deepEqual(edited(found, { model: 'x', stream: true }), {
      stream: true,
      anthropic_version: 'vertex-2023-10-16',
    });
    const count = { ...facts, endpoint: 'messages.count_tokens', stream: false } as const;
    const counted = plan(count, hostFacts('claude-opus-4'));
    assert.ok(counted.kind === 'pass');
    assert.equal(counted.path, `${root}/publishers/anthropic/models/count-tokens:rawPredict`);
    assert.deepEqual(edited(counted, { model: 'anthropic.claude-opus-4' }), { model: 'claude-opus-4' });
    assert.equal(plan(count, hostFacts('gemini-2.5-pro')).kind, 'refuse');
  });

  test('a chat client reaches a model that speaks chat completions', () => {
    const found = plan({}, hostFacts('meta.llama-4-maas'));
    assert.ok(found.kind === 'pass');
    assert.equal(found.path, `${root}/endpoints/openapi/chat/completions`);
    assert.deepEqual(edited(found, { model: 'meta.llama-4-maas' }), { model: 'meta/llama-4-maas' });
  });
});

describe('operations', () => {
  test('embeddings are predicted, their tokens counted', () => {
    const host = hostFacts('text-embedding-005');
    const found = plan({ endpoint: 'embeddings' }, host);
    assert.ok(found.kind === 'operation');
    const body = {
      model: 'text-embedding-005',
      input: 'a',
      dimensions: 4,
      provider_options: { 'google-vertex': { task_type: 'RETRIEVAL_QUERY' } },
    };
    const asked = found.codec.encodeRequest(body, host, new EncodeReport());
    assert.equal(asked.path, `${root}/publishers/google/models/text-embedding-005:predict`);
    assert.deepEqual(JSON.parse(asked.body.toString()), {
      instances: [{ content: 'a', task_type: 'RETRIEVAL_QUERY' }],
      parameters: { outputDimensionality: 4 },
    });
    const statistics = { token_count: 3 };
    const answer = {
      predictions: [{ embeddings: { values: [1], statistics } }, { embeddings: { values: [2], statistics } }],
    };
    const { usage, body: shown } = found.codec.decodeAnswer(Buffer.from(JSON.stringify(answer)), '', body);
    assert.equal(usage?.promptTokens, 6);
    assert.deepEqual((shown as JsonObject).usage, { prompt_tokens: 6, total_tokens: 6 });
  });

  test('reranking and moderation are refused', () => {
    for (const endpoint of ['rerank', 'moderations'] as const)
      assert.equal(plan({ endpoint }, hostFacts('gemini-2.5-pro')).kind, 'refuse');
  });
});
