import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { chatRequest } from './decode-request.ts';

const messages = [
  { role: 'system', content: 'a' },
  {
    role: 'user',
    content: [
      { type: 'text', text: 'b' },
      { type: 'image_url', image_url: { url: 'x' } },
    ],
  },
  { content: 'c' },
  'no message',
];
const fromMessages = (member: string) => [
  ['system', 'a', `${member}/0/content`],
  ['user', 'b', `${member}/1/content/0/text`],
  ['', 'c', `${member}/2/content`],
];

describe('the texts of a request', () => {
  const cases: readonly [string, EndpointId, unknown, readonly (readonly string[])[]][] = [
    ['chat', 'chat.completions', { messages, prompt: 'not this' }, fromMessages('messages')],
    [
      'an answer that comes back with its blocks',
      'chat.completions',
      { messages: [{ role: 'assistant', content: 'a', content_blocks: [{ type: 'text', text: 'b' }] }] },
      [
        ['assistant', 'a', 'messages/0/content'],
        ['assistant', 'b', 'messages/0/content_blocks/0/text'],
      ],
    ],
    ['chat under an unknown path', 'proxy', { messages }, fromMessages('messages')],
    [
      'completions under an unknown path',
      'proxy',
      { prompt: ['x', 'y'] },
      [
        ['user', 'x', 'prompt/0'],
        ['user', 'y', 'prompt/1'],
      ],
    ],
    ['embeddings under an unknown path', 'proxy', { input: 'x' }, [['user', 'x', 'input']]],
    ['messages under input', 'proxy', { input: messages.slice(0, 3) }, fromMessages('input')],
    ['a prompt for an image', 'images', { prompt: 'x' }, [['user', 'x', 'prompt']]],
    ['words to be spoken', 'audio', { input: 'x' }, [['user', 'x', 'input']]],
    [
      'all of it',
      'proxy',
      { messages: [{ role: 'user', content: 'x' }], prompt: 'y', input: 'z' },
      [
        ['user', 'x', 'messages/0/content'],
        ['user', 'y', 'prompt'],
        ['user', 'z', 'input'],
      ],
    ],
    ['a body that is none of these', 'proxy', { anything: 'x' }, []],
    ['no object', 'proxy', ['x'], []],
    ['nothing', 'proxy', undefined, []],
  ];
  for (const [name, endpoint, body, expected] of cases) {
    it(name, () => {
      const { texts } = chatRequest.decodeConversation(endpoint, body);
      assert.deepEqual(
        texts.map(({ role, text, path }) => [role, text, path.join('/')]),
        expected,
      );
    });
  }
});
