import { Type, type TSchema } from 'typebox';
import { component, listOf, oneOf, openObject, orNull } from './operation.ts';

const Model = Type.String({
  description: 'A model of the provider, or `@slug/model` for a provider of the configuration.',
});
const Stream = Type.Optional(Type.Boolean({ description: 'Server-sent events.' }));
const texts = Type.Union([Type.String(), Type.Array(Type.String())]);
const AnyObject = Type.Record(Type.String(), Type.Unknown());

/** Categories of harm in moderations. */
export const moderationCategories = [
  ...['hate', 'hate/threatening', 'harassment', 'harassment/threatening'],
  ...['self-harm', 'self-harm/intent', 'self-harm/instructions'],
  ...['sexual', 'sexual/minors', 'violence', 'violence/graphic'],
] as const;

const ofCategories = (schema: TSchema): TSchema =>
  Type.Object(Object.fromEntries(moderationCategories.map((name) => [name, schema])));

const requests = {
  CompletionRequest: Type.Object({
    model: Model,
    prompt: Type.Optional(
      Type.Union([Type.String(), Type.Array(Type.Unknown())], {
        description: 'A text, several, or tokens.',
      }),
    ),
    max_tokens: Type.Optional(
      Type.Integer({ minimum: 0, deprecated: true, description: 'Most tokens to write.' }),
    ),
    stream: Stream,
  }),
  EmbeddingsRequest: Type.Object({
    model: Model,
    input: Type.Union([Type.String(), Type.Array(Type.Unknown())], {
      description: 'A text, several, or tokens.',
    }),
    dimensions: Type.Optional(Type.Integer({ minimum: 1 })),
    encoding_format: Type.Optional(oneOf(['float', 'base64'])),
    user: Type.Optional(Type.String()),
  }),
  ModerationRequest: Type.Object({
    input: texts,
    model: Type.Optional(
      Type.Union([oneOf(['text-moderation-stable', 'text-moderation-latest']), Type.String()], {
        default: 'text-moderation-latest',
        description:
          '`text-moderation-latest`, which is updated automatically, or `text-moderation-stable`; others only with `strict-open-ai-compliance: false`.',
      }),
    ),
  }),
  RerankRequest: Type.Object({
    model: Type.String({
      description:
        'Model; on a cloud platform its complete resource name, as in the reference of that platform.',
    }),
    query: Type.String(),
    documents: Type.Array(Type.Union([Type.String(), AnyObject])),
    top_n: Type.Optional(Type.Integer({ minimum: 1 })),
    return_documents: Type.Optional(Type.Boolean()),
    max_chunks_per_doc: Type.Optional(Type.Integer({ minimum: 1 })),
  }),
  ResponsesRequest: Type.Object({
    model: Type.Optional(Model),
    input: Type.Optional(
      Type.Union([Type.String(), Type.Array(AnyObject)], { description: 'A text, or items.' }),
    ),
    instructions: Type.Optional(orNull(Type.String())),
    max_output_tokens: Type.Optional(orNull(Type.Integer({ minimum: 0 }))),
    previous_response_id: Type.Optional(orNull(Type.String())),
    tools: Type.Optional(Type.Array(AnyObject)),
    stream: Stream,
  }),
  MessagesRequest: Type.Object({
    model: Model,
    max_tokens: Type.Integer({
      minimum: 0,
      description: 'Most tokens to write; required in this wire format.',
    }),
    messages: Type.Array(component('MessagesMessage'), { minItems: 1 }),
    system: Type.Optional(Type.Union([Type.String(), Type.Array(AnyObject)])),
    temperature: Type.Optional(Type.Number()),
    tools: Type.Optional(Type.Array(AnyObject)),
    stream: Stream,
  }),
  MessagesMessage: Type.Object({
    role: oneOf(['user', 'assistant', 'system']),
    content: Type.Union([Type.String(), Type.Array(AnyObject)]),
  }),
  CountTokensRequest: Type.Object({
    model: Model,
    messages: Type.Array(component('MessagesMessage'), { minItems: 1 }),
    system: Type.Optional(Type.Union([Type.String(), Type.Array(AnyObject)])),
    tools: Type.Optional(Type.Array(AnyObject)),
  }),
  GenerateContentRequest: Type.Object({
    contents: Type.Array(
      Type.Object({ role: Type.Optional(oneOf(['user', 'model'])), parts: Type.Array(AnyObject) }),
    ),
    systemInstruction: Type.Optional(AnyObject),
    tools: Type.Optional(Type.Array(AnyObject)),
    generationConfig: Type.Optional(AnyObject),
  }),
};

const answers = {
  Embeddings: Type.Object({
    object: Type.Literal('list'),
    model: Type.Optional(Type.String()),
    data: Type.Array(
      Type.Object({
        object: Type.Literal('embedding'),
        index: Type.Integer({ minimum: 0 }),
        embedding: Type.Union([Type.Array(Type.Number()), Type.String()], {
          description: 'Numbers, or base64 of 32-bit floats.',
        }),
      }),
    ),
    usage: Type.Optional(Type.Object({ prompt_tokens: Type.Integer(), total_tokens: Type.Integer() })),
  }),
  Moderation: Type.Object({
    id: Type.String(),
    model: Type.String(),
    results: Type.Array(
      Type.Object({
        flagged: Type.Boolean(),
        categories: ofCategories(Type.Boolean()),
        category_scores: ofCategories(Type.Number()),
      }),
    ),
  }),
  Rerank: Type.Object({
    id: Type.Optional(Type.String()),
    results: Type.Array(Type.Object({ index: Type.Integer({ minimum: 0 }), relevance_score: Type.Number() })),
  }),
  Response: Type.Object({
    id: Type.String(),
    object: Type.Literal('response'),
    status: Type.Optional(Type.String()),
    model: Type.Optional(Type.String()),
    output: Type.Array(AnyObject),
    usage: Type.Optional(orNull(AnyObject)),
  }),
  ResponseItemList: Type.Object({
    object: Type.Literal('list'),
    data: Type.Array(
      openObject({ id: Type.String(), type: Type.String({ description: '`message`, `function_call` …' }) }),
    ),
    first_id: orNull(Type.String()),
    last_id: orNull(Type.String()),
    has_more: Type.Boolean(),
  }),
  Message: Type.Object({
    id: Type.String(),
    type: Type.Literal('message'),
    role: Type.Literal('assistant'),
    model: Type.String(),
    content: Type.Array(AnyObject),
    stop_reason: Type.Optional(orNull(Type.String())),
    usage: Type.Object({ input_tokens: Type.Integer(), output_tokens: Type.Integer() }),
  }),
  MessageEvent: openObject({
    type: Type.String({ description: '`message_start`, `content_block_delta`, `message_stop` …' }),
  }),
  ResponseEvent: openObject({
    type: Type.String({ description: '`response.created`, `response.output_text.delta` …' }),
    sequence_number: Type.Optional(Type.Integer({ minimum: 0 })),
  }),
  TokenCount: Type.Object({ input_tokens: Type.Integer({ minimum: 0 }) }),
  GeneratedContent: Type.Object({
    candidates: Type.Optional(Type.Array(AnyObject)),
    usageMetadata: Type.Optional(AnyObject),
    modelVersion: Type.Optional(Type.String()),
  }),
  Model: Type.Object({
    id: Type.String({ description: '`@slug/model` in the catalogue of several providers.' }),
    object: Type.Literal('model'),
    created: Type.Optional(Type.Integer({ description: 'Unix seconds.' })),
    owned_by: Type.Optional(Type.String()),
  }),
  ModelList: listOf(component('Model')),
};

/** Requests and answers of the endpoints for models, by the names of the components. */
export const modelSchemas: Readonly<Record<string, TSchema>> = { ...requests, ...answers };
