import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { exchange, textOf } from '../mock.test-support.ts';

async function ask(path: string, body: object | null = null, headers: readonly string[] = []) {
  const received = await exchange({ path, body, headers: ['content-type', 'application/json', ...headers] });
  return { status: received.status, body: JSON.parse(textOf(received)) };
}

const said = (text: string): object => ({ role: 'user', parts: [{ text }] });

describe("models in Gemini's shape", () => {
  it('are listed a page at a time', async () => {
    const seen: string[] = [];
    for (let token: string | undefined = '', pages = 0; token !== undefined && pages < 20; pages++) {
      const { body } = await ask(`/v1beta/models?pageSize=4&pageToken=${token}`);
      for (const model of body.models) {
        assert.match(model.name, /^models\//);
        assert.ok(model.displayName && model.inputTokenLimit > 0 && model.outputTokenLimit > 0);
        assert.ok(model.supportedGenerationMethods.includes('countTokens'));
        seen.push(model.name);
      }
      token = body.nextPageToken;
    }
    assert.deepEqual(
      seen,
      (await ask('/v1/models')).body.data.map(({ id }: { id: string }) => `models/${id}`),
    );
  });

  it('are found by name, under each version and by the key of that wire', async () => {
    for (const path of ['/v1beta/models/mock-gpt', '/v1alpha/models/mock-gpt'])
      assert.equal((await ask(path)).body.name, 'models/mock-gpt');
    assert.equal(
      (await ask('/v1/models/mock-gpt', null, ['x-goog-api-key', 'k'])).body.name,
      'models/mock-gpt',
    );
    const { status, body } = await ask('/v1beta/models/other');
    assert.deepEqual([status, body.error.code, body.error.status], [404, 404, 'NOT_FOUND']);
  });

  for (const query of ['pageSize=0', 'pageToken=x', 'pageToken=999'])
    it(`refuse ${query}`, async () => assert.equal((await ask(`/v1beta/models?${query}`)).status, 400));
});

it("models in Anthropic's shape are listed by its header, after and before one of them", async () => {
  const version = ['anthropic-version', '2023-06-01'];
  const { body } = await ask('/v1/models?limit=3', null, version);
  assert.deepEqual([body.data.length, body.has_more, body.first_id], [3, true, body.data[0].id]);
  assert.deepEqual(
    { ...body.data[0], display_name: typeof body.data[0].display_name },
    { type: 'model', id: 'mock-gpt', display_name: 'string', created_at: '2025-10-01T00:00:00Z' },
  );
  const rest = await ask(`/v1/models?after_id=${body.last_id}`, null, version);
  assert.deepEqual([rest.body.data.length, rest.body.has_more], [6, false]);
  const before = await ask(`/v1/models?before_id=${body.last_id}&limit=1`, null, version);
  assert.deepEqual([before.body.data.length, before.body.data[0].id], [1, body.data[1].id]);
  assert.equal((await ask('/v1/models?after_id=x', null, version)).body.error.type, 'not_found_error');
  assert.equal((await ask('/v1/models/mock-x', null, version)).body.type, 'model');
});

describe("Gemini's counts and embeddings", () => {
  it('a count grows with the text, and is the same for a whole request', async () => {
    const contents = [said('Hello there')];
    const short = await ask('/v1beta/models/mock-gpt:countTokens', { contents: [said('Hi')] });
    const plain = await ask('/v1beta/models/mock-gpt:countTokens', { contents });
    const whole = await ask('/v1beta/models/mock-gpt:countTokens', {
      generateContentRequest: { model: 'models/mock-gpt', contents },
    });
    assert.ok(short.body.totalTokens > 0 && plain.body.totalTokens > short.body.totalTokens);
    assert.deepEqual(whole.body, plain.body);
  });

  it('one text and several get the vectors that OpenAI clients get', async () => {
    const one = await ask('/v1beta/models/mock-embedding:embedContent', {
      content: { parts: [{ text: 'a' }] },
      outputDimensionality: 8,
    });
    const several = await ask('/v1beta/models/mock-embedding:batchEmbedContents', {
      requests: ['a', 'b'].map((text) => ({
        model: 'models/mock-embedding',
        content: { parts: [{ text }] },
        outputDimensionality: 8,
      })),
    });
    const plain = await ask('/embeddings', { model: 'mock-embedding', input: ['a', 'b'], dimensions: 8 });
    const vectors = plain.body.data.map(({ embedding }: { embedding: number[] }) => embedding);
    assert.deepEqual(one.body.embedding.values, vectors[0]);
    assert.deepEqual(
      several.body.embeddings.map(({ values }: { values: number[] }) => values),
      vectors,
    );
  });

  const wrong: readonly [string, object][] = [
    ['countTokens', {}],
    ['countTokens', { contents: 'x' }],
    ['embedContent', {}],
    ['embedContent', { content: { parts: [] } }],
    ['embedContent', { content: said('x'), outputDimensionality: 0 }],
    ['batchEmbedContents', { requests: [] }],
    ['batchEmbedContents', { requests: [7] }],
  ];
  for (const [operation, body] of wrong)
    it(`${operation} refuses ${JSON.stringify(body)}`, async () => {
      const answer = await ask(`/v1beta/models/mock-gpt:${operation}`, body);
      assert.deepEqual([answer.status, answer.body.error.status], [400, 'INVALID_ARGUMENT']);
    });

  it('faults in the name of the model in the path are played', async () => {
    const { status, body } = await ask('/v1beta/models/mock:status=429:countTokens', { contents: [] });
    assert.deepEqual([status, body.error.status], [429, 'RESOURCE_EXHAUSTED']);
  });
});
