import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import type { OperationCodec } from '../../../core/dialects/upstream-plan.ts';
import { hostOf, models } from './converse.test-support.ts';
import { bedrockOperations } from './operations.ts';
import type { JsonObject } from '../json-reading.ts';

function asked(codec: OperationCodec, model: string, body: JsonObject) {
  const report = new EncodeReport();
  const request = codec.encodeRequest({ model, ...body }, hostOf(model), report);
  return {
    path: request.path,
    body: JSON.parse(String(request.body)) as JsonObject,
    dropped: report.dropped,
    emulated: report.emulated,
  };
}

function told(codec: OperationCodec, answer: unknown, request: JsonObject = {}) {
  return codec.decodeAnswer(Buffer.from(JSON.stringify(answer)), 'application/json', request);
}

const titan1 = 'amazon.titan-embed-text-v1';
const titan2 = 'amazon.titan-embed-text-v2:0';
const titanImage = 'amazon.titan-embed-image-v1';
const nova = 'amazon.nova-2-multimodal-embeddings-v1:0';
const cohere3 = 'cohere.embed-multilingual-v3';
const cohere4 = 'us.cohere.embed-v4:0';

describe('embeddings', () => {
  interface Row {
    readonly model: string;
    readonly given: JsonObject;
    readonly body: JsonObject;
    readonly dropped?: readonly string[];
    readonly emulated?: readonly string[];
  }
  const rows: readonly Row[] = [
    {
      model: titan1,
      given: { input: ['Hi'], dimensions: 256, user: 'u', encoding_format: 'base64' },
      body: { inputText: 'Hi' },
      dropped: ['dimensions', 'user'],
    },
    {
      model: titan2,
      given: { input: 'Hi', dimensions: 256, normalize: false, user: null },
      body: { inputText: 'Hi', dimensions: 256, normalize: false },
    },
    {
      model: titanImage,
      given: { input: [{ text: 'Hi', image: { base64: 'AAAA' } }], dimensions: 384 },
      body: { inputText: 'Hi', inputImage: 'AAAA', embeddingConfig: { outputEmbeddingLength: 384 } },
    },
    {
      model: nova,
      given: { input: 'Hi', dimensions: 1024 },
      body: {
        taskType: 'SINGLE_EMBEDDING',
        singleEmbeddingParams: {
          embeddingPurpose: 'GENERIC_INDEX',
          embeddingDimension: 1024,
          text: { truncationMode: 'END', value: 'Hi' },
        },
      },
    },
    {
      model: cohere3,
      given: { input: ['a', 'b'], dimensions: 256 },
      body: { texts: ['a', 'b'], input_type: 'search_document' },
      dropped: ['dimensions'],
      emulated: ['input_type'],
    },
    {
      model: cohere4,
      given: {
        input: 'a',
        dimensions: 256,
        input_type: 'search_query',
        truncate: 'LEFT',
        provider_options: { 'bedrock-converse': { embedding_types: ['int8'] } },
      },
      body: {
        texts: ['a'],
        input_type: 'search_query',
        output_dimension: 256,
        truncate: 'LEFT',
        embedding_types: ['int8'],
      },
    },
  ];
  for (const { model, given, body, dropped = [], emulated = [] } of rows) {
    it(`are asked of ${model}`, () => {
      const out = asked(bedrockOperations.embeddings, model, given);
      assert.equal(out.path, `/model/${encodeURIComponent(model)}/invoke`);
      assert.deepEqual(out.body, body);
      assert.deepEqual([out.dropped, out.emulated], [dropped, emulated]);
    });
  }

  const refused: readonly (readonly [says: string, model: string, given: JsonObject, param: string])[] = [
    ['lists for a model that takes one text', titan2, { input: ['a', 'b'] }, 'input'],
    ['nothing at all', titan2, { input: [] }, 'input'],
    ['tokens', cohere3, { input: [[1, 2]] }, 'input[0]'],
    ['no input', titan2, {}, 'input'],
    ['a picture for a model of texts', cohere3, { input: [{ image: { base64: 'A' } }] }, 'input'],
    ['a model that embeds nothing', models.claude, { input: 'a' }, 'model'],
    ['an id that does not tell', models.profile, { input: 'a' }, 'model'],
  ];
  for (const [says, model, given, param] of refused) {
    it(`refuse ${says}`, () =>
      assert.throws(() => asked(bedrockOperations.embeddings, model, given), {
        code: 'invalid_request',
        param,
      }));
  }

  it("come in OpenAI's shape from every model", () => {
    const answers: readonly unknown[] = [
      { embedding: [1, 2], inputTextTokenCount: 3 },
      { embeddingsByType: { float: [1, 2] } },
      { embeddings: [{ embeddingType: 'TEXT', embedding: [1, 2] }] },
      { embeddings: [[1, 2]], response_type: 'embeddings_floats' },
      { embeddings: { float: [[1, 2]] }, response_type: 'embeddings_by_type' },
    ];
    for (const answer of answers) {
      const { body } = told(bedrockOperations.embeddings, answer, { model: 'asked' });
      const { object, data, model } = body as JsonObject;
      assert.deepEqual([object, model], ['list', 'asked']);
      assert.deepEqual(data, [{ object: 'embedding', index: 0, embedding: [1, 2] }]);
    }
  });

  it('tell the usage where the model does', () => {
    const answer = told(bedrockOperations.embeddings, { embedding: [1], inputTextTokenCount: 3 });
    assert.equal(answer.usage?.promptTokens, 3);
    assert.deepEqual((answer.body as JsonObject).usage, { prompt_tokens: 3, total_tokens: 3 });
    const silent = told(bedrockOperations.embeddings, { embeddings: [[1]] });
    assert.equal(silent.usage, undefined);
    assert.deepEqual((silent.body as JsonObject).usage, { prompt_tokens: 0, total_tokens: 0 });
  });

  it('are packed as the caller wants them', () => {
    const answer = told(
      bedrockOperations.embeddings,
      { embedding: [1, -0.5] },
      { encoding_format: 'base64' },
    );
    const [{ embedding }] = (answer.body as JsonObject).data as [{ embedding: string }];
    const bytes = Buffer.from(embedding, 'base64');
    assert.deepEqual([bytes.readFloatLE(0), bytes.readFloatLE(4), bytes.length], [1, -0.5, 8]);
  });

  it('refuse an answer without any', () => {
    for (const answer of [{}, [], { embeddings: [] }]) {
      assert.throws(() => told(bedrockOperations.embeddings, answer), { code: 'upstream_invalid' });
    }
  });
});

describe('images', () => {
  interface Row {
    readonly model: string;
    readonly given: JsonObject;
    readonly body: JsonObject;
    readonly dropped?: readonly string[];
    readonly emulated?: readonly string[];
  }
  const rows: readonly Row[] = [
    {
      model: 'amazon.nova-canvas-v1:0',
      given: {
        n: 2,
        size: '1024x512',
        quality: 'hd',
        seed: 7,
        negative_prompt: 'dogs',
        response_format: 'url',
        style: 'vivid',
      },
      body: {
        taskType: 'TEXT_IMAGE',
        textToImageParams: { text: 'A cat', negativeText: 'dogs' },
        imageGenerationConfig: { width: 1024, height: 512, seed: 7, numberOfImages: 2, quality: 'premium' },
      },
      dropped: ['response_format', 'style'],
    },
    {
      model: 'amazon.titan-image-generator-v2:0',
      given: { quality: 'auto', size: 'auto', response_format: 'b64_json' },
      body: { taskType: 'TEXT_IMAGE', textToImageParams: { text: 'A cat' } },
    },
    {
      model: 'amazon.titan-image-generator-v2:0',
      given: { quality: 'ultra' },
      body: { taskType: 'TEXT_IMAGE', textToImageParams: { text: 'A cat' } },
      dropped: ['quality'],
    },
    {
      model: 'us.stability.stable-image-core-v1:1',
      given: { n: 2, size: '1792x1024', output_format: 'jpeg' },
      body: { prompt: 'A cat', output_format: 'jpeg', aspect_ratio: '16:9' },
      dropped: ['n'],
      emulated: ['size'],
    },
    {
      model: 'stability.sd3-5-large-v1:0',
      given: { n: 1, size: '1024x1024', seed: 3, negative_prompt: 'dogs' },
      body: { prompt: 'A cat', negative_prompt: 'dogs', seed: 3, aspect_ratio: '1:1' },
    },
    {
      model: 'stability.stable-diffusion-xl-v1',
      given: { size: '512x512', negative_prompt: 'dogs', cfg_scale: 10, steps: 30 },
      body: {
        text_prompts: [
          { text: 'A cat', weight: 1 },
          { text: 'dogs', weight: -1 },
        ],
        width: 512,
        height: 512,
        cfg_scale: 10,
        steps: 30,
      },
    },
  ];
  for (const { model, given, body, dropped = [], emulated = [] } of rows) {
    it(`are asked of ${model} (${Object.keys(given).join(', ')})`, () => {
      const out = asked(bedrockOperations.images, model, { prompt: 'A cat', ...given });
      assert.deepEqual(out.body, body);
      assert.deepEqual([out.dropped, out.emulated], [dropped, emulated]);
    });
  }

  it('refuse what cannot be asked', () => {
    const of = (model: string, given: JsonObject) => () => asked(bedrockOperations.images, model, given);
    assert.throws(of('amazon.nova-canvas-v1:0', {}), { code: 'invalid_request', param: 'prompt' });
    assert.throws(of('amazon.nova-canvas-v1:0', { prompt: 'a', size: 'big' }), { param: 'size' });
    assert.throws(of(models.claude, { prompt: 'a' }), { code: 'invalid_request', param: 'model' });
  });

  it('come as base64 from every model', () => {
    for (const answer of [
      { images: ['AAAA'], error: null },
      { seeds: [1], finish_reasons: [null], images: ['AAAA'] },
      { result: 'success', artifacts: [{ base64: 'AAAA', finishReason: 'SUCCESS' }] },
    ]) {
      assert.deepEqual(told(bedrockOperations.images, answer).body, { data: [{ b64_json: 'AAAA' }] });
    }
  });

  it('tell why there are none', () => {
    for (const [answer, message] of [
      [{ finish_reasons: ['Filter reason: prompt'] }, /Filter reason: prompt/],
      [{ images: [], error: 'Blocked by policy' }, /Blocked by policy/],
    ] as const) {
      assert.throws(() => told(bedrockOperations.images, answer), {
        code: 'invalid_request',
        source: 'provider',
        message,
      });
    }
    assert.throws(() => told(bedrockOperations.images, {}), { code: 'upstream_invalid' });
  });
});

describe('reranking', () => {
  const arn = 'arn:aws:bedrock:us-east-1::foundation-model/cohere.rerank-v3-5:0';
  const given = {
    query: 'cats',
    documents: ['a', { text: 'b' }, { title: 'c' }],
    top_n: 2,
    return_documents: true,
    max_chunks_per_doc: 3,
  };

  it('is asked of Cohere by a full resource name', () => {
    const out = asked(bedrockOperations.rerank, arn, { ...given, max_tokens_per_doc: 99 });
    assert.equal(
      out.path,
      '/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A%3Afoundation-model%2Fcohere.rerank-v3-5%3A0/invoke',
    );
    assert.deepEqual(out.body, {
      query: 'cats',
      documents: ['a', 'b', '{"title":"c"}'],
      top_n: 2,
      api_version: 2,
      max_tokens_per_doc: 99,
    });
    assert.deepEqual(out.dropped, ['max_chunks_per_doc']);
  });

  it("is asked of Amazon's model", () => {
    const out = asked(bedrockOperations.rerank, 'amazon.rerank-v1:0', { query: 'cats', documents: ['a'] });
    assert.deepEqual(out.body, { query: 'cats', documents: ['a'] });
  });

  it('gives the documents back from the request, when they are wanted', () => {
    const results = [{ index: 1, relevance_score: 0.9 }, { index: 0, relevance_score: 0.2 }, { index: -1 }];
    assert.deepEqual(told(bedrockOperations.rerank, { results }, { ...given, model: 'm' }).body, {
      model: 'm',
      results: [
        { index: 1, relevance_score: 0.9, document: { text: 'b' } },
        { index: 0, relevance_score: 0.2, document: { text: 'a' } },
      ],
    });
    assert.deepEqual(
      told(bedrockOperations.rerank, { results: [results[0]] }, { model: 'm', documents: ['a', 'b'] }).body,
      {
        model: 'm',
        results: [{ index: 1, relevance_score: 0.9 }],
      },
    );
  });

  it('refuses what cannot be asked or read', () => {
    const of = (model: string, body: JsonObject) => () => asked(bedrockOperations.rerank, model, body);
    assert.throws(of(models.claude, given), { param: 'model' });
    assert.throws(of(arn, { ...given, query: '' }), { param: 'query' });
    assert.throws(of(arn, { ...given, documents: [] }), { param: 'documents' });
    assert.throws(of(arn, { ...given, documents: [1] }), { param: 'documents[0]' });
    assert.throws(() => told(bedrockOperations.rerank, {}), { code: 'upstream_invalid' });
  });
});
