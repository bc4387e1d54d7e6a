import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import type { OperationCodec, UpstreamPlan } from '../../../core/dialects/upstream-plan.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { type JsonObject, parseExactObject } from '../json-reading.ts';
import { hostFacts } from './cohere.test-support.ts';
import { cohereEmbeddings, cohereRerank, cohereV2Host, cohereV2Provider } from './index.ts';

function encode(codec: OperationCodec, request: JsonObject, host = hostFacts('embed-v4.0')) {
  const report = new EncodeReport();
  const { path, body } = codec.encodeRequest(request, host, report);
  return {
    path,
    body: parseExactObject(String(body)) ?? {},
    dropped: report.dropped,
    emulated: report.emulated,
  };
}

const decode = (codec: OperationCodec, answer: unknown, request: JsonObject) =>
  codec.decodeAnswer(Buffer.from(JSON.stringify(answer)), 'application/json', request);

const isInvalid = (code: string) => (error: unknown) => GatewayError.is(error) && error.code === code;

describe('embeddings of Cohere', () => {
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AA' } };
  const requests: readonly (readonly [JsonObject, JsonObject])[] = [
    [{ input: 'a' }, { texts: ['a'], input_type: 'search_document', embedding_types: ['float'] }],
    [
      {
        input: ['a', 'b'],
        encoding_format: 'base64',
        dimensions: 256,
        input_type: 'search_query',
        truncate: 'END',
      },
      {
        texts: ['a', 'b'],
        input_type: 'search_query',
        truncate: 'END',
        embedding_types: ['base64'],
        output_dimension: 256,
      },
    ],
    [
      { input: ['a', { text: 'b', image: { url: 'data:image/png;base64,AA' } }, image] },
      {
        inputs: [
          { content: [{ type: 'text', text: 'a' }] },
          { content: [{ type: 'text', text: 'b' }, image] },
          { content: [image] },
        ],
        input_type: 'search_document',
        embedding_types: ['float'],
      },
    ],
    [
      { images: ['data:image/png;base64,AA'], embedding_types: ['int8'] },
      { images: ['data:image/png;base64,AA'], input_type: 'image', embedding_types: ['int8'] },
    ],
    [
      { input: 'a', provider_options: { 'cohere-v2': { truncate: 'START' } } },
      { texts: ['a'], truncate: 'START', input_type: 'search_document', embedding_types: ['float'] },
    ],
  ];
  for (const [request, expected] of requests) {
    it(`are asked for with ${JSON.stringify(request)}`, () => {
      const { path, body, dropped } = encode(cohereEmbeddings, { model: 'client-name', ...request });
      assert.equal(path, '/v2/embed');
      assert.deepEqual(body, { model: 'embed-v4.0', ...expected });
      assert.deepEqual(dropped, []);
    });
  }

  it('report what they cannot say and refuse token numbers', () => {
    assert.deepEqual(encode(cohereEmbeddings, { model: 'm', input: 'a', user: 'u' }).dropped, ['user']);
    for (const input of [[1, 2], [[1, 2]]]) {
      assert.throws(() => encode(cohereEmbeddings, { model: 'm', input }), isInvalid('invalid_request'));
    }
  });

  it("are answered in OpenAI's shape", () => {
    const meta = { billed_units: { input_tokens: 4, image_tokens: 6 } };
    const answer = { id: 'e', embeddings: { float: [[0.5, -1], [2]] }, texts: ['a', 'b'], meta };
    const { body, usage, model } = decode(cohereEmbeddings, answer, { model: 'asked' });
    assert.deepEqual(body, {
      object: 'list',
      data: [
        { object: 'embedding', index: 0, embedding: [0.5, -1] },
        { object: 'embedding', index: 1, embedding: [2] },
      ],
      model: 'asked',
      usage: { prompt_tokens: 10, total_tokens: 10 },
    });
    assert.deepEqual([usage?.promptTokens, usage?.completionTokens, model], [10, 0, 'asked']);
  });

  it('keep every kind that was asked for', () => {
    const embeddings = { int8: [[1]], base64: ['AAAA'] };
    const { body } = decode(cohereEmbeddings, { embeddings }, {});
    assert.deepEqual((body as JsonObject).embeddings, embeddings);
    assert.deepEqual((body as JsonObject).data, [{ object: 'embedding', index: 0, embedding: 'AAAA' }]);
  });

  it('are read in the first form of the answer, too', () => {
    const { body } = decode(cohereEmbeddings, { embeddings: [[1]] }, {});
    assert.deepEqual((body as JsonObject).data, [{ object: 'embedding', index: 0, embedding: [1] }]);
  });

  for (const broken of [{}, { message: 'no' }, []]) {
    it(`are none: ${JSON.stringify(broken)}`, () => {
      assert.throws(() => decode(cohereEmbeddings, broken, {}), isInvalid('upstream_invalid'));
    });
  }
});

describe('rerank of Cohere', () => {
  const host = hostFacts('rerank-v3.5');

  it('sends texts and reports what the second version has no more', () => {
    const request = {
      model: 'client-name',
      query: 'q',
      documents: ['a', { text: 'b' }, { title: 'T', pages: 3, text: 'two\nlines' }],
      top_n: 2,
      max_tokens_per_doc: 512,
      return_documents: true,
      max_chunks_per_doc: 10,
    };
    const { path, body, dropped, emulated } = encode(cohereRerank, request, host);
    assert.equal(path, '/v2/rerank');
    assert.deepEqual(body, {
      model: 'rerank-v3.5',
      query: 'q',
      top_n: 2,
      max_tokens_per_doc: 512,
      documents: ['a', 'b', 'title: T\npages: 3\ntext: "two\\nlines"'],
    });
    assert.deepEqual([dropped, emulated], [['max_chunks_per_doc'], ['documents']]);
  });

  it('ranks by the fields that were named', () => {
    const documents = [{ title: 'T', text: 'x', page: 1 }, { title: 'U' }];
    const { body, emulated } = encode(cohereRerank, { documents, rank_fields: ['title', 'text'] }, host);
    assert.deepEqual(body.documents, ['title: T\ntext: x', 'title: U']);
    assert.deepEqual(emulated, ['rank_fields', 'documents']);
  });

  it('refuses a request without documents', () => {
    assert.throws(() => encode(cohereRerank, { query: 'q' }, host), isInvalid('invalid_request'));
  });

  const results = [
    { index: 1, relevance_score: 0.9 },
    { index: 0, relevance_score: 0.1 },
  ];
  const meta = { api_version: { version: '2' }, billed_units: { search_units: 1 } };

  it('gives documents back when the request wants them', () => {
    const request = { model: 'asked', documents: ['a', { text: 'b', page: 2 }], return_documents: true };
    const { body, usage, model } = decode(cohereRerank, { id: 'r', results, meta }, request);
    assert.deepEqual(body, {
      id: 'r',
      object: 'list',
      model: 'asked',
      results: [
        { index: 1, relevance_score: 0.9, document: { text: 'b', page: 2 } },
        { index: 0, relevance_score: 0.1, document: { text: 'a' } },
      ],
      meta,
      usage: { search_units: 1 },
    });
    assert.deepEqual([usage, model], [undefined, 'asked']);
  });

  it('gives bare results otherwise, and counts tokens where they are told', () => {
    const counted = { billed_units: { search_units: 1 }, tokens: { input_tokens: 30, output_tokens: 0 } };
    const answer = { id: 'r', results, meta: counted };
    const { body, usage } = decode(cohereRerank, answer, { documents: ['a', 'b'] });
    assert.deepEqual((body as JsonObject).results, results);
    assert.deepEqual((body as JsonObject).usage, { search_units: 1, prompt_tokens: 30, total_tokens: 30 });
    assert.equal(usage?.promptTokens, 30);
  });

  it('is none', () => {
    assert.throws(() => decode(cohereRerank, { message: 'no' }, {}), isInvalid('upstream_invalid'));
  });
});

describe('the plan of a Cohere host', () => {
  function plan(endpoint: EndpointId, path: string, query = ''): UpstreamPlan {
    const call = { endpoint, method: 'POST', path, query, stream: false, host: hostFacts() };
    return cohereV2Host.plan({ ...call, spoken: 'openai-chat' });
  }

  for (const endpoint of [
    'chat.completions',
    'completions',
    'responses',
    'messages',
    'generate-content',
  ] as const) {
    it(`translates ${endpoint}`, () => {
      assert.deepEqual(plan(endpoint, '/any'), { kind: 'chat', codec: cohereV2Provider });
    });
  }

  it('has its own embeddings and rerank', () => {
    assert.deepEqual(plan('embeddings', '/embeddings'), { kind: 'operation', codec: cohereEmbeddings });
    assert.deepEqual(plan('rerank', '/rerank'), { kind: 'operation', codec: cohereRerank });
  });

  it('passes on what is not modelled', () => {
    assert.deepEqual(plan('proxy', '/v2/chat', '?a=1'), { kind: 'pass', path: '/v2/chat?a=1' });
    assert.deepEqual(plan('proxy', '/v1/datasets'), { kind: 'pass', path: '/v1/datasets' });
    assert.deepEqual(plan('models', '/models', '?page_size=5'), {
      kind: 'pass',
      path: '/v1/models?page_size=5',
    });
    assert.deepEqual(plan('models', '/v1/models'), { kind: 'pass', path: '/v1/models' });
  });

  for (const endpoint of [
    'moderations',
    'images.generations',
    'images',
    'audio.speech',
    'messages.count_tokens',
  ] as const) {
    it(`refuses ${endpoint}`, () => {
      const refusal = plan(endpoint, '/any');
      assert.ok(refusal.kind === 'refuse');
      assert.match(refusal.message, /^The provider "cohere" has no /);
    });
  }
});
