import { Type, type TSchema } from 'typebox';
import { component, openObject, orNull, unixSeconds } from './component.ts';

const logprobMembers = {
  token: Type.String(),
  logprob: Type.Number(),
  bytes: Type.Optional(orNull(Type.Array(Type.Integer({ minimum: 0, maximum: 255 })))),
};

const TokenLogprob = Type.Object({
  ...logprobMembers,
  top_logprobs: Type.Optional(Type.Array(Type.Object(logprobMembers))),
});

const ToolCall = Type.Object({
  id: Type.String(),
  type: Type.String({ description: '`function`.' }),
  function: Type.Optional(
    Type.Object({ name: Type.String(), arguments: Type.String({ description: 'JSON text.' }) }),
  ),
});

const AnswerMessage = Type.Object({
  role: Type.Literal('assistant'),
  content: Type.Optional(orNull(Type.String())),
  refusal: Type.Optional(orNull(Type.String())),
  tool_calls: Type.Optional(orNull(Type.Array(component('ChatToolCall')))),
  function_call: Type.Optional(
    Type.Union([Type.Object({ name: Type.String(), arguments: Type.String() }), Type.Null()], {
      deprecated: true,
      description: 'Use `tool_calls`.',
    }),
  ),
  content_blocks: Type.Optional(
    Type.Array(Type.Object({ type: Type.String(), text: Type.Optional(Type.String()) }), {
      description: 'Parts of the answer, reasoning included, where `strict-open-ai-compliance` is `false`.',
    }),
  ),
});

const Count = (description?: string) =>
  Type.Optional(Type.Integer({ minimum: 0, ...(description === undefined ? {} : { description }) }));

const Usage = Type.Object({
  prompt_tokens: Type.Integer({ minimum: 0 }),
  completion_tokens: Type.Integer({ minimum: 0 }),
  total_tokens: Type.Integer({ minimum: 0 }),
  completion_tokens_details: Type.Optional(
    orNull(
      Type.Object({
        reasoning_tokens: Count(),
        accepted_prediction_tokens: Count(),
        rejected_prediction_tokens: Count(),
      }),
    ),
  ),
  prompt_tokens_details: Type.Optional(orNull(Type.Object({ cached_tokens: Count() }))),
});

const Choice = Type.Object({
  index: Type.Integer({ minimum: 0 }),
  message: component('ChatAnswerMessage'),
  logprobs: Type.Optional(
    orNull(Type.Object({ content: Type.Optional(orNull(Type.Array(component('TokenLogprob')))) })),
  ),
  finish_reason: Type.Optional(orNull(Type.String())),
});

const Completion = Type.Object({
  id: Type.String(),
  object: Type.Literal('chat.completion'),
  created: unixSeconds('When it was made.'),
  model: Type.String({ description: 'The model that answered.' }),
  system_fingerprint: Type.Optional(
    orNull(Type.String(), 'The configuration behind the model: with `seed`, tells of its changes.'),
  ),
  choices: Type.Array(component('ChatChoice'), { description: 'As many as `n` asks for.' }),
  usage: Type.Optional(component('ChatUsage')),
});

/** One event of a stream. */
const Chunk = Type.Object({
  id: Type.String(),
  object: Type.Literal('chat.completion.chunk'),
  created: unixSeconds('When it was made.'),
  model: Type.String({ description: 'The model that answers.' }),
  choices: Type.Array(
    Type.Object({
      index: Type.Integer({ minimum: 0 }),
      delta: openObject({
        role: Type.Optional(Type.String()),
        content: Type.Optional(orNull(Type.String())),
        refusal: Type.Optional(orNull(Type.String())),
        tool_calls: Type.Optional(
          Type.Array(openObject({ index: Type.Integer({ minimum: 0 }) }), {
            description: 'Parts of calls; the arguments come in pieces.',
          }),
        ),
      }),
      finish_reason: Type.Optional(orNull(Type.String())),
    }),
    { description: 'None in the event that tells the usage.' },
  ),
  usage: Type.Optional(orNull(component('ChatUsage'))),
});

const TextCompletion = Type.Object({
  id: Type.String(),
  object: Type.Literal('text_completion'),
  created: unixSeconds('When it was made.'),
  model: Type.String(),
  choices: Type.Array(
    Type.Object({
      index: Type.Integer({ minimum: 0 }),
      text: Type.String(),
      finish_reason: Type.Optional(orNull(Type.String())),
    }),
  ),
  usage: Type.Optional(component('ChatUsage')),
});

/** What clients of the chat wire are answered, by the names of the components. */
export const chatAnswerSchemas: Readonly<Record<string, TSchema>> = {
  ChatCompletion: Completion,
  ChatChoice: Choice,
  ChatAnswerMessage: AnswerMessage,
  ChatToolCall: ToolCall,
  ChatUsage: Usage,
  TokenLogprob,
  ChatCompletionChunk: Chunk,
  TextCompletion,
};
