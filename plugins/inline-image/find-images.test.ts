import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EndpointId } from '../../core/dialects/endpoint.ts';
import type { JsonValue } from '../../core/pipeline/context.ts';
import { setAt } from '../../core/pipeline/json-splice.ts';
import { findImages, placeOf } from './index.ts';

const url = 'https://images.example.com/a.png';
const data = 'data:image/png;base64,AA==';

/** Every image replaced; and where they were. */
function inlined(endpoint: EndpointId, body: JsonValue) {
  const images = findImages(endpoint, body);
  let text = JSON.stringify(body);
  for (const image of images) text = setAt(text, image.path, image.inlined('image/png', 'AA=='));
  return { body: JSON.parse(text) as unknown, places: images.map(({ path }) => placeOf(path)) };
}

const user = (...content: JsonValue[]): JsonValue => ({ role: 'user', content });
const source = { type: 'url', url };
const own = { type: 'base64', media_type: 'image/png', data: 'AA==' };

describe('images are found and replaced in the form of the dialect', () => {
  const cases: readonly [string, EndpointId, (image: unknown) => JsonValue, unknown, unknown, string][] = [
    [
      'chat, with its detail',
      'chat.completions',
      (image) => ({
        messages: [
          user('x'),
          user({ type: 'text', text: url }, { type: 'image_url', image_url: image as JsonValue }),
        ],
      }),
      { url, detail: 'low' },
      { url: data, detail: 'low' },
      'messages[1].content[1].image_url.url',
    ],
    [
      'chat, the URL alone',
      'chat.completions',
      (image) => ({ messages: [user({ type: 'image_url', image_url: image as JsonValue })] }),
      url,
      data,
      'messages[0].content[0].image_url',
    ],
    [
      'responses',
      'responses',
      (image) => ({ input: [user({ type: 'input_image', image_url: image as JsonValue, detail: 'auto' })] }),
      url,
      data,
      'input[0].content[0].image_url',
    ],
    [
      'responses, what a function returned',
      'responses',
      (image) => ({
        input: [
          { type: 'function_call_output', output: [{ type: 'input_image', image_url: image as JsonValue }] },
        ],
      }),
      url,
      data,
      'input[0].output[0].image_url',
    ],
    [
      'responses, a screenshot',
      'responses',
      (image) => ({
        input: [
          {
            type: 'computer_call_output',
            output: { type: 'computer_screenshot', image_url: image as JsonValue },
          },
        ],
      }),
      url,
      data,
      'input[0].output.image_url',
    ],
    [
      'messages, with its cache control',
      'messages',
      (image) => ({
        messages: [user({ type: 'image', source: image as JsonValue, cache_control: { type: 'ephemeral' } })],
      }),
      source,
      own,
      'messages[0].content[0].source',
    ],
    [
      'messages, what a tool returned',
      'messages',
      (image) => ({
        messages: [user({ type: 'tool_result', content: [{ type: 'image', source: image as JsonValue }] })],
      }),
      source,
      own,
      'messages[0].content[0].content[0].source',
    ],
  ];
  for (const [name, endpoint, body, before, after, place] of cases) {
    test(name, () =>
      assert.deepEqual(inlined(endpoint, body(before)), { body: body(after), places: [place] }),
    );
  }
});

describe('everything else is left alone', () => {
  const chat = (image: JsonValue): JsonValue => ({
    messages: [user({ type: 'image_url', image_url: image })],
  });
  const cases: readonly [string, EndpointId, JsonValue][] = [
    ['a data URL', 'chat.completions', chat({ url: data })],
    ['another scheme', 'chat.completions', chat({ url: 'gs://bucket/a.png' })],
    ['no URL', 'chat.completions', chat({ url: 7 })],
    ['no image', 'chat.completions', chat(null)],
    ['another type', 'chat.completions', { messages: [user({ type: 'file', image_url: { url } })] }],
    ['text content', 'chat.completions', { messages: [{ role: 'user', content: url }] }],
    ['odd messages', 'chat.completions', { messages: [null, 1, [], { content: [null, 1, 'x', []] }] }],
    ['no messages', 'chat.completions', {}],
    ['a file id', 'responses', { input: [user({ type: 'input_image', file_id: 'file-1' })] }],
    ['a text input', 'responses', { input: url }],
    ['a base64 source', 'messages', { messages: [user({ type: 'image', source: own })] }],
    [
      'a file source',
      'messages',
      { messages: [user({ type: 'image', source: { type: 'file', file_id: 'f' } })] },
    ],
    ['a document', 'messages', { messages: [user({ type: 'document', source })] }],
    ['another endpoint', 'embeddings', chat({ url })],
    ['an unmodelled one', 'proxy', chat({ url })],
    ['no object', 'chat.completions', [chat({ url })]],
  ];
  for (const [name, endpoint, body] of cases) {
    test(name, () => assert.deepEqual(findImages(endpoint, body), []));
  }
  test('no body', () => assert.deepEqual(findImages('chat.completions', undefined), []));
});
