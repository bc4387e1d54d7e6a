import {
  bytes,
  inPath,
  inQuery,
  json,
  type GatewayOperation,
  type OperationBody,
  component,
} from './operation.ts';
import { moderationCategories } from './model-schemas.ts';

const question = [{ role: 'user', content: 'Say hello.' }];

const usage = { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 };

const created = 1795212000;

const kept = {
  id: 'resp_1',
  object: 'response',
  status: 'completed',
  model: 'gpt-5-mini',
  output: [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Hello!' }] }],
};

const responseId = inPath('response_id', 'resp_1', 'A response of the workspace.');

const whoKeeps =
  'The plugin `stored-responses` keeps answers of providers that keep none, for a time; all others are kept by their provider, which the request has to name.';

const chat: readonly GatewayOperation[] = [
  {
    endpoint: 'chat.completions',
    id: 'chat.completions.create',
    method: 'POST',
    path: '/chat/completions',
    summary: 'Creates a chat completion',
    description:
      'Every chat provider serves this endpoint; if it uses another wire format, the gateway translates request and answer.',
    request: [json('ChatCompletionRequest', { model: 'gpt-5-mini', messages: question })],
    response: [
      json('ChatCompletion', {
        id: 'chatcmpl-1',
        object: 'chat.completion',
        created,
        model: 'gpt-5-mini',
        choices: [
          {
            index: 0,
            message: { role: 'assistant', content: 'Hello!' },
            logprobs: null,
            finish_reason: 'stop',
          },
        ],
        usage,
      }),
      events(
        'ChatCompletionChunk',
        `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":${created},"model":"gpt-5-mini","choices":[{"index":0,"delta":{"content":"Hello!"},"finish_reason":null}]}\n\ndata: [DONE]\n\n`,
        '[DONE]',
      ),
    ],
  },
  {
    endpoint: 'completions',
    id: 'completions.create',
    method: 'POST',
    path: '/completions',
    summary: 'Creates a text completion',
    request: [json('CompletionRequest', { model: 'gpt-3.5-turbo-instruct', prompt: 'Once upon a time' })],
    response: [
      json('TextCompletion', {
        id: 'cmpl-1',
        object: 'text_completion',
        created,
        model: 'gpt-3.5-turbo-instruct',
        choices: [{ index: 0, text: ' there was a gateway.', finish_reason: 'stop' }],
        usage,
      }),
      events(
        'TextCompletion',
        'data: {"id":"cmpl-1","object":"text_completion","choices":[]}\n\ndata: [DONE]\n\n',
        '[DONE]',
      ),
    ],
  },
  {
    endpoint: 'responses',
    id: 'responses.create',
    method: 'POST',
    path: '/responses',
    summary: 'Creates a response (Responses API)',
    request: [json('ResponsesRequest', { model: 'gpt-5-mini', input: 'Say hello.' })],
    response: [
      json('Response', kept),
      events(
        'ResponseEvent',
        'event: response.created\ndata: {"type":"response.created","response":{"id":"resp_1","object":"response","output":[]}}\n\n',
      ),
    ],
  },
  {
    endpoint: 'proxy',
    id: 'responses.get',
    method: 'GET',
    path: '/responses/{response_id}',
    summary: 'A stored response',
    description: whoKeeps,
    parameters: [responseId],
    response: [json('Response', kept)],
  },
  {
    endpoint: 'proxy',
    id: 'responses.delete',
    method: 'DELETE',
    path: '/responses/{response_id}',
    summary: 'Deletes a stored response',
    description: whoKeeps,
    parameters: [responseId],
    response: [json('Deleted', { id: 'resp_1', object: 'response', deleted: true })],
  },
  {
    endpoint: 'proxy',
    id: 'responses.input_items',
    method: 'GET',
    path: '/responses/{response_id}/input_items',
    summary: 'Input items of a stored response',
    description: whoKeeps,
    parameters: [
      responseId,
      inQuery('limit', 'How many.', { type: 'integer', minimum: 1, maximum: 100, default: 20 }),
      inQuery('order', 'The latest first, or the first.', {
        type: 'string',
        enum: ['desc', 'asc'],
        default: 'desc',
      }),
      inQuery('after', 'The last id of the page before.', { type: 'string' }),
    ],
    response: [
      json('ResponseItemList', {
        object: 'list',
        data: [
          {
            id: 'in_1_0',
            type: 'message',
            role: 'user',
            status: 'completed',
            content: [{ type: 'input_text', text: 'Say hello.' }],
          },
        ],
        first_id: 'in_1_0',
        last_id: 'in_1_0',
        has_more: false,
      }),
    ],
  },
  {
    endpoint: 'messages',
    id: 'messages.create',
    method: 'POST',
    path: '/messages',
    errors: 'anthropic',
    summary: 'Creates a message (Messages API)',
    request: [json('MessagesRequest', { model: 'claude-sonnet-4-5', max_tokens: 256, messages: question })],
    response: [
      json('Message', {
        id: 'msg_1',
        type: 'message',
        role: 'assistant',
        model: 'claude-sonnet-4-5',
        content: [{ type: 'text', text: 'Hello!' }],
        stop_reason: 'end_turn',
        usage: { input_tokens: 9, output_tokens: 3 },
      }),
      events('MessageEvent', 'event: message_stop\ndata: {"type":"message_stop"}\n\n'),
    ],
  },
  {
    endpoint: 'messages.count_tokens',
    id: 'messages.count_tokens',
    method: 'POST',
    path: '/messages/count_tokens',
    errors: 'anthropic',
    summary: 'Counts the tokens of a message',
    request: [json('CountTokensRequest', { model: 'claude-sonnet-4-5', messages: question })],
    response: [json('TokenCount', { input_tokens: 9 })],
  },
];

const contents = [{ role: 'user', parts: [{ text: 'Say hello.' }] }];

const geminiModel = inPath('model', 'gemini-2.5-flash', 'A model of the provider.');

const generated = {
  candidates: [{ content: { role: 'model', parts: [{ text: 'Hello!' }] }, finishReason: 'STOP' }],
  modelVersion: 'gemini-2.5-flash',
};

const gemini: readonly GatewayOperation[] = [
  {
    endpoint: 'generate-content',
    id: 'generate_content.create',
    method: 'POST',
    unprefixed: true,
    errors: 'gemini',
    path: '/v1beta/models/{model}:generateContent',
    summary: 'Generates content (Gemini API)',
    parameters: [geminiModel],
    request: [json('GenerateContentRequest', { contents })],
    response: [json('GeneratedContent', generated)],
  },
  {
    endpoint: 'generate-content',
    id: 'generate_content.stream',
    method: 'POST',
    unprefixed: true,
    errors: 'gemini',
    path: '/v1beta/models/{model}:streamGenerateContent',
    summary: 'Generates content as a stream (Gemini API)',
    parameters: [
      geminiModel,
      {
        name: 'alt',
        in: 'query',
        required: false,
        schema: { type: 'string', enum: ['sse'] },
        description: '`sse` for server-sent events. Without it the answer is a JSON array sent in pieces.',
      },
    ],
    request: [json('GenerateContentRequest', { contents })],
    response: [
      events('GeneratedContent', `data: ${JSON.stringify(generated)}\n\n`),
      {
        type: 'application/json',
        schema: { type: 'array', items: { $ref: '#/components/schemas/GeneratedContent' } },
        example: [generated],
      },
    ],
  },
];

const scores = Object.fromEntries(moderationCategories.map((name) => [name, 0.01]));

const flags = Object.fromEntries(moderationCategories.map((name) => [name, false]));

const measures: readonly GatewayOperation[] = [
  {
    endpoint: 'embeddings',
    id: 'embeddings.create',
    method: 'POST',
    path: '/embeddings',
    summary: 'Creates embeddings of texts',
    request: [json('EmbeddingsRequest', { model: 'text-embedding-3-small', input: 'A text.' })],
    response: [
      json('Embeddings', {
        object: 'list',
        model: 'text-embedding-3-small',
        data: [{ object: 'embedding', index: 0, embedding: [0.12, -0.03] }],
        usage: { prompt_tokens: 3, total_tokens: 3 },
      }),
    ],
  },
  {
    endpoint: 'moderations',
    id: 'moderations.create',
    method: 'POST',
    path: '/moderations',
    summary: 'Classifies whether texts are harmful',
    request: [json('ModerationRequest', { input: 'A text.' })],
    response: [
      json('Moderation', {
        id: 'modr-1',
        model: 'text-moderation-latest',
        results: [{ flagged: false, categories: flags, category_scores: scores }],
      }),
    ],
  },
  {
    endpoint: 'rerank',
    id: 'rerank.create',
    method: 'POST',
    path: '/rerank',
    summary: 'Ranks documents by relevance to a query',
    request: [
      json('RerankRequest', { model: 'rerank-v3.5', query: 'A gateway?', documents: ['A gate.', 'A way.'] }),
    ],
    response: [json('Rerank', { id: 'rerank-1', results: [{ index: 1, relevance_score: 0.98 }] })],
  },
];

const anyJson = (example: unknown) => ({ type: 'application/json', schema: { type: 'object' }, example });

const image = anyJson({ created, data: [{ b64_json: 'iVBORw0KGgo=' }] });

const transcript = anyJson({ text: 'Hello.' });

const media: readonly GatewayOperation[] = [
  {
    endpoint: 'images.generations',
    id: 'images.generate',
    method: 'POST',
    path: '/images/generations',
    summary: 'Creates images from a description',
    request: [anyJson({ model: 'gpt-image-1', prompt: 'A weir at dawn.' })],
    response: [image],
  },
  {
    endpoint: 'images',
    id: 'images.edit',
    method: 'POST',
    path: '/images/edits',
    summary: 'Edits an image',
    request: [bytes('multipart/form-data')],
    response: [image],
  },
  {
    endpoint: 'audio.speech',
    id: 'audio.speech.create',
    method: 'POST',
    path: '/audio/speech',
    summary: 'Converts a text to speech',
    request: [anyJson({ model: 'gpt-4o-mini-tts', input: 'Hello.', voice: 'alloy' })],
    response: [bytes('audio/*')],
  },
  {
    endpoint: 'audio',
    id: 'audio.transcriptions.create',
    method: 'POST',
    path: '/audio/transcriptions',
    summary: 'Transcribes a recording',
    request: [bytes('multipart/form-data')],
    response: [transcript],
  },
  {
    endpoint: 'audio',
    id: 'audio.translations.create',
    method: 'POST',
    path: '/audio/translations',
    summary: 'Translates a recording into English text',
    request: [bytes('multipart/form-data')],
    response: [transcript],
  },
];

/** Endpoints for models. */
export const modelOperations: readonly (readonly [tag: string, operations: readonly GatewayOperation[]])[] = [
  ['Chat', [...chat, ...gemini]],
  ['Vectors and judgements', measures],
  ['Images and sound', media],
];

/** Server-sent events with JSON of a component's schema as data. `end`: data of the last event instead. */
function events(name: string, example: string, end?: string): OperationBody {
  const last = end === undefined ? '' : ` The last one says \`${end}\`.`;
  const schema = {
    type: 'string',
    contentMediaType: 'text/event-stream',
    description: `The data of each event is JSON that matches \`contentSchema\`.${last}`,
    contentSchema: component(name),
  };
  return { type: 'text/event-stream', schema, example };
}
