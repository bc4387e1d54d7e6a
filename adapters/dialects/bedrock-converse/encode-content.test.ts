import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatMessage } from '../../../core/dialects/canonical/chat-request.ts';
import { encoded, models } from './converse.test-support.ts';

const base64 = (mediaType: string) => ({ kind: 'base64', mediaType, data: 'AAAA' }) as const;
const url = (value: string) => ({ kind: 'url', url: value }) as const;

interface Row {
  readonly says: string;
  readonly part: ChatPart;
  readonly blocks: readonly unknown[];
  readonly dropped?: readonly string[];
  readonly emulated?: readonly string[];
  readonly model?: string;
  readonly role?: ChatMessage['role'];
}

const place = 'messages[0].content[0]';
const rows: readonly Row[] = [
  { says: 'text', part: { type: 'text', text: 'Hi' }, blocks: [{ text: 'Hi' }] },
  { says: 'blank text is left out', part: { type: 'text', text: ' \n' }, blocks: [] },
  {
    says: 'text with a cache marker',
    part: { type: 'text', text: 'Hi', cache: { ttl: '1h' } },
    blocks: [{ text: 'Hi' }, { cachePoint: { type: 'default', ttl: '1h' } }],
  },
  {
    says: 'an unknown lifetime of the cache',
    part: { type: 'text', text: 'Hi', cache: { ttl: '24h' } },
    blocks: [{ text: 'Hi' }, { cachePoint: { type: 'default' } }],
    dropped: [`${place}.cache_control.ttl`],
  },
  {
    says: 'a cache marker for a model without a cache',
    part: { type: 'text', text: 'Hi', cache: {} },
    blocks: [{ text: 'Hi' }],
    dropped: [`${place}.cache_control`],
    model: models.llama,
  },
  {
    says: 'a cache marker on nothing',
    part: { type: 'text', text: '', cache: {} },
    blocks: [],
    dropped: [`${place}.cache_control`],
  },
  {
    says: 'text that a guardrail judges',
    part: {
      type: 'text',
      text: 'Hi',
      extras: { 'bedrock-converse': { guardContent: { qualifiers: ['query'] } } },
    },
    blocks: [{ guardContent: { text: { text: 'Hi', qualifiers: ['query'] } } }],
  },
  {
    says: 'extras of another dialect',
    part: { type: 'text', text: 'Hi', extras: { 'google-gemini': { thought: true } } },
    blocks: [{ text: 'Hi' }],
    dropped: [`${place}.thought`],
  },
  {
    says: 'own extras that no block has, and a signature of Gemini',
    part: { type: 'text', text: 'Hi', signature: 's', extras: { 'bedrock-converse': { other: 1 } } },
    blocks: [{ text: 'Hi' }],
    dropped: [`${place}.other`, `${place}.extra_content.google.thought_signature`],
  },
  {
    says: 'citations of this dialect',
    part: {
      type: 'text',
      text: 'Hi',
      citations: [{ kind: 'url', raw: { dialect: 'bedrock-converse', value: { title: 'T' } } }],
    },
    blocks: [{ citationsContent: { content: [{ text: 'Hi' }], citations: [{ title: 'T' }] } }],
    role: 'assistant',
  },
  {
    says: 'citations of another dialect',
    part: { type: 'text', text: 'Hi', citations: [{ kind: 'url', url: 'https://a.example' }] },
    blocks: [{ text: 'Hi' }],
    dropped: [`${place}.citations`],
    role: 'assistant',
  },
  {
    says: 'an image',
    part: { type: 'image', source: base64('image/jpeg'), detail: 'auto' },
    blocks: [{ image: { format: 'jpeg', source: { bytes: 'AAAA' } } }],
  },
  {
    says: 'the detail of an image',
    part: { type: 'image', source: base64('image/webp'), detail: 'low' },
    blocks: [{ image: { format: 'webp', source: { bytes: 'AAAA' } } }],
    dropped: [`${place}.image_url.detail`],
  },
  {
    says: 'an image in S3',
    part: { type: 'image', source: url('s3://bucket/a.JPG') },
    blocks: [{ image: { format: 'jpeg', source: { s3Location: { uri: 's3://bucket/a.JPG' } } } }],
  },
  {
    says: 'an image elsewhere',
    part: { type: 'image', source: url('https://a.example/a.png') },
    blocks: [],
    dropped: [place],
  },
  {
    says: 'an image of another format',
    part: { type: 'image', source: base64('image/tiff') },
    blocks: [],
    dropped: [place],
  },
  {
    says: 'an image that a guardrail judges',
    part: {
      type: 'image',
      source: base64('image/png'),
      extras: { 'bedrock-converse': { guardContent: true } },
    },
    blocks: [{ guardContent: { image: { format: 'png', source: { bytes: 'AAAA' } } } }],
  },
  {
    says: 'a recording',
    part: { type: 'audio', source: base64('audio/x-wav') },
    blocks: [{ audio: { format: 'wav', source: { bytes: 'AAAA' } } }],
  },
  {
    says: 'a recording that only its transcript tells of',
    part: {
      type: 'audio',
      source: { kind: 'file-id', id: 'a', dialect: 'openai-chat' },
      transcript: 'Said',
    },
    blocks: [{ text: 'Said' }],
    emulated: [place],
  },
  {
    says: 'a recording that nobody can hear',
    part: { type: 'audio', source: { kind: 'file-id', id: 'a', dialect: 'openai-chat' } },
    blocks: [],
    dropped: [place],
  },
  {
    says: 'a PDF that shall be cited',
    part: {
      type: 'file',
      source: base64('application/pdf'),
      filename: "Résumé_2026's.pdf",
      context: 'CV',
      citations: true,
    },
    blocks: [
      {
        document: {
          format: 'pdf',
          name: 'Resume-2026-s',
          source: { bytes: 'AAAA' },
          context: 'CV',
          citations: { enabled: true },
        },
      },
    ],
  },
  {
    says: 'a file that its name tells of',
    part: { type: 'file', source: base64('application/octet-stream'), filename: 'a.xlsx' },
    blocks: [{ document: { format: 'xlsx', name: 'a', source: { bytes: 'AAAA' } } }],
  },
  {
    says: 'a plain text document',
    part: { type: 'file', source: { kind: 'text', text: 'Hi' } },
    blocks: [{ document: { format: 'txt', name: 'document-1', source: { bytes: 'SGk=' } } }],
  },
  {
    says: 'a film',
    part: { type: 'file', source: url('s3://b/f.3gp') },
    blocks: [{ video: { format: 'three_gp', source: { s3Location: { uri: 's3://b/f.3gp' } } } }],
  },
  {
    says: 'a picture as a file',
    part: { type: 'file', source: base64('image/png'), filename: 'a.png' },
    blocks: [{ image: { format: 'png', source: { bytes: 'AAAA' } } }],
  },
  {
    says: 'a file of an unknown kind',
    part: { type: 'file', source: base64('application/zip'), filename: 'a.zip' },
    blocks: [],
    dropped: [place],
  },
  {
    says: 'a file that was uploaded elsewhere',
    part: { type: 'file', source: { kind: 'file-id', id: 'f', dialect: 'openai-chat' }, filename: 'a.pdf' },
    blocks: [],
    dropped: [place],
  },
  {
    says: 'a call with an integer beyond 2^53',
    part: {
      type: 'tool-call',
      id: 'functions.f:0',
      name: 'f',
      kind: 'function',
      arguments: '{"a":12345678901234567890}',
    },
    blocks: [{ toolUse: { toolUseId: 'functions.f:0', name: 'f', input: { a: 12345678901234567890n } } }],
    role: 'assistant',
  },
  {
    says: 'a call without arguments',
    part: { type: 'tool-call', id: 'c', name: 'f', kind: 'function', arguments: '' },
    blocks: [{ toolUse: { toolUseId: 'c', name: 'f', input: {} } }],
    role: 'assistant',
  },
  {
    says: 'a call whose arguments are no object',
    part: { type: 'tool-call', id: 'c', name: 'f', kind: 'function', arguments: '[1' },
    blocks: [{ toolUse: { toolUseId: 'c', name: 'f', input: { arguments: '[1' } } }],
    emulated: [`${place}.function.arguments`],
    role: 'assistant',
  },
  {
    says: 'a call of a custom tool',
    part: { type: 'tool-call', id: 'c', name: 'f', kind: 'custom', arguments: 'free' },
    blocks: [{ toolUse: { toolUseId: 'c', name: 'f', input: { input: 'free' } } }],
    role: 'assistant',
  },
  {
    says: 'a failed result with a picture',
    part: {
      type: 'tool-result',
      callId: 'c',
      kind: 'function',
      isError: true,
      content: [
        { type: 'text', text: 'No' },
        { type: 'image', source: base64('image/png') },
      ],
    },
    blocks: [
      {
        toolResult: {
          toolUseId: 'c',
          content: [{ text: 'No' }, { image: { format: 'png', source: { bytes: 'AAAA' } } }],
          status: 'error',
        },
      },
    ],
    role: 'tool',
  },
  {
    says: 'a failed result for a model that knows no failure',
    part: {
      type: 'tool-result',
      callId: 'c',
      kind: 'function',
      isError: true,
      content: [{ type: 'text', text: 'No' }],
    },
    blocks: [{ toolResult: { toolUseId: 'c', content: [{ text: 'No' }] } }],
    dropped: [`${place}.is_error`],
    model: models.llama,
    role: 'tool',
  },
  {
    says: 'signed thinking',
    part: { type: 'reasoning', text: 'Hm', signature: 'sig' },
    blocks: [{ reasoningContent: { reasoningText: { text: 'Hm', signature: 'sig' } } }],
    role: 'assistant',
  },
  {
    says: 'hidden thinking',
    part: { type: 'reasoning', text: '', redacted: 'cmVk' },
    blocks: [{ reasoningContent: { redactedContent: 'cmVk' } }],
    role: 'assistant',
  },
  {
    says: 'unsigned thinking, which Claude refuses',
    part: { type: 'reasoning', text: 'Hm' },
    blocks: [],
    dropped: [place],
    role: 'assistant',
  },
  {
    says: 'unsigned thinking of a model that signs none',
    part: { type: 'reasoning', text: 'Hm' },
    blocks: [{ reasoningContent: { reasoningText: { text: 'Hm' } } }],
    model: 'moonshot.kimi-k2-thinking',
    role: 'assistant',
  },
  {
    says: 'a reasoning item of OpenAI',
    part: { type: 'reasoning', text: 'Hm', signature: 'gAAAAABpEm2k', itemId: 'rs_1' },
    blocks: [],
    dropped: [place],
    role: 'assistant',
  },
  {
    says: 'thinking of its own that comes back as a reasoning item',
    part: { type: 'reasoning', text: 'Hm', signature: 'EqQB', itemId: 'rs_1', summary: true },
    blocks: [{ reasoningContent: { reasoningText: { text: 'Hm', signature: 'EqQB' } } }],
    role: 'assistant',
  },
  {
    says: 'a refusal',
    part: { type: 'refusal', text: 'No.' },
    blocks: [{ text: 'No.' }],
    emulated: [`${place}.refusal`],
    role: 'assistant',
  },
  {
    says: "a provider's tool of this dialect",
    part: {
      type: 'provider-tool',
      dialect: 'bedrock-converse',
      phase: 'call',
      id: 't',
      name: 'nova_grounding',
      value: { toolUse: { toolUseId: 't' } },
    },
    blocks: [{ toolUse: { toolUseId: 't' } }],
    role: 'assistant',
  },
  {
    says: "a provider's tool of another dialect",
    part: {
      type: 'provider-tool',
      dialect: 'openai-responses',
      phase: 'call',
      id: 't',
      name: 'web_search',
      value: {},
    },
    blocks: [],
    dropped: [place],
    role: 'assistant',
  },
  {
    says: 'an opaque block of this dialect',
    part: { type: 'opaque', dialect: 'bedrock-converse', value: { searchResult: { title: 'T' } } },
    blocks: [{ searchResult: { title: 'T' } }],
  },
  {
    says: 'an opaque block of another dialect',
    part: { type: 'opaque', dialect: 'anthropic-messages', value: {} },
    blocks: [],
    dropped: [place],
  },
];

describe('parts as blocks', () => {
  for (const { says, part, blocks, dropped = [], emulated = [], model, role = 'user' } of rows) {
    it(says, () => {
      const out = encoded(model ?? models.claude, { messages: [{ role, parts: [part] }] });
      const [message] = out.body.messages;
      assert.deepEqual(message?.content ?? [], blocks);
      assert.deepEqual(out.dropped, dropped);
      assert.deepEqual(
        out.emulated.filter((name) => name !== 'tools'),
        emulated,
      );
    });
  }
});

it('names every document once, as the API allows', () => {
  const file = (filename?: string): ChatPart => ({
    type: 'file',
    source: base64('application/pdf'),
    ...(filename === undefined ? {} : { filename }),
  });
  const names = ['a  b.pdf', 'A b.pdf', 'a\tb.pdf', '분기.pdf', `${'x'.repeat(250)}.pdf`, undefined];
  const { body } = encoded(models.claude, { messages: [{ role: 'user', parts: names.map(file) }] });
  assert.deepEqual(
    body.messages[0]!.content.map(({ document }) => document.name),
    ['a b', 'A b (2)', 'a b (3)', 'document-1', 'x'.repeat(200), 'document-2'],
  );
});

describe('ids of calls', () => {
  const conversation = (id: string): readonly ChatMessage[] => [
    { role: 'assistant', parts: [{ type: 'tool-call', id, name: 'f', kind: 'function', arguments: '{}' }] },
    { role: 'tool', parts: [{ type: 'tool-result', callId: id, kind: 'function', content: [] }] },
  ];
  const idsOf = (model: string, id: string): readonly [string, string] => {
    const { messages } = encoded(model, { messages: conversation(id) }).body;
    return [messages[0]!.content[0]!.toolUse.toolUseId, messages[1]!.content[0]!.toolResult.toolUseId];
  };

  it('stay where the API takes them', () => {
    assert.deepEqual(idsOf(models.claude, 'call_A-1.b:2'), ['call_A-1.b:2', 'call_A-1.b:2']);
  });

  it('are replaced by the same one in call and result where it does not', () => {
    for (const [model, id, pattern] of [
      [models.claude, 'call|1', /^[0-9a-f]{32}$/],
      [models.claude, 'x'.repeat(65), /^[0-9a-f]{32}$/],
      [models.mistral, 'tooluse_abcdef', /^[0-9a-f]{9}$/],
    ] as const) {
      const [call, result] = idsOf(model, id);
      assert.match(call, pattern);
      assert.equal(call, result);
    }
    assert.notEqual(idsOf(models.mistral, 'tooluse_a')[0], idsOf(models.mistral, 'tooluse_b')[0]);
  });
});
