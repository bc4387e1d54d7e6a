import { type TSchema, Type } from 'typebox';
import { component, oneOf, openObject, orNull, unixSeconds } from './operation.ts';

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
      description: 'Parts of the answer, including reasoning, if `strict-open-ai-compliance` is `false`.',
    }),
  ),
});

const Count = Type.Optional(Type.Integer({ minimum: 0 }));

const Usage = Type.Object({
  prompt_tokens: Type.Integer({ minimum: 0 }),
  completion_tokens: Type.Integer({ minimum: 0 }),
  total_tokens: Type.Integer({ minimum: 0 }),
  completion_tokens_details: Type.Optional(
    orNull(
      Type.Object({
        reasoning_tokens: Count,
        accepted_prediction_tokens: Count,
        rejected_prediction_tokens: Count,
      }),
    ),
  ),
  prompt_tokens_details: Type.Optional(orNull(Type.Object({ cached_tokens: Count }))),
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
  created: unixSeconds('Time of creation.'),
  model: Type.String({ description: 'Model that answered.' }),
  system_fingerprint: Type.Optional(
    orNull(
      Type.String(),
      'Fingerprint of the configuration of the model; together with `seed` it shows changes.',
    ),
  ),
  choices: Type.Array(component('ChatChoice'), { description: 'Answers, as many as `n`.' }),
  usage: Type.Optional(component('ChatUsage')),
});

/** One event of a stream. */
const Chunk = Type.Object({
  id: Type.String(),
  object: Type.Literal('chat.completion.chunk'),
  created: unixSeconds('Time of creation.'),
  model: Type.String({ description: 'Model that answers.' }),
  choices: Type.Array(
    Type.Object({
      index: Type.Integer({ minimum: 0 }),
      delta: openObject({
        role: Type.Optional(Type.String()),
        content: Type.Optional(orNull(Type.String())),
        refusal: Type.Optional(orNull(Type.String())),
        tool_calls: Type.Optional(
          Type.Array(openObject({ index: Type.Integer({ minimum: 0 }) }), {
            description: 'Parts of tool calls; the arguments arrive in pieces.',
          }),
        ),
      }),
      finish_reason: Type.Optional(orNull(Type.String())),
    }),
    { description: 'Empty in the event with the usage.' },
  ),
  usage: Type.Optional(orNull(component('ChatUsage'))),
});

const TextCompletion = Type.Object({
  id: Type.String(),
  object: Type.Literal('text_completion'),
  created: unixSeconds('Time of creation.'),
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

/** Answers of the chat dialect, by the names of the components. */
const chatAnswerSchemas: Readonly<Record<string, TSchema>> = {
  ChatCompletion: Completion,
  ChatChoice: Choice,
  ChatAnswerMessage: AnswerMessage,
  ChatToolCall: ToolCall,
  ChatUsage: Usage,
  TokenLogprob,
  ChatCompletionChunk: Chunk,
  TextCompletion,
};

const Penalty = (description: string) =>
  Type.Optional(Type.Number({ minimum: -2, maximum: 2, description: `${description} -2 to 2.` }));

const ContentPart = Type.Object(
  { type: Type.String({ description: '`text`, `image_url`, `input_audio`, `file`, `refusal` …' }) },
  { additionalProperties: true },
);

const Message = Type.Object({
  role: oneOf(['system', 'developer', 'user', 'assistant', 'tool', 'function']),
  content: Type.Optional(
    Type.Union([Type.String(), Type.Array(ContentPart), Type.Null()], {
      description: 'A text, or parts of several kinds.',
    }),
  ),
  name: Type.Optional(Type.String({ description: 'Name of the author, or of the function that answered.' })),
  tool_calls: Type.Optional(
    Type.Array(component('ChatToolCall'), { description: 'Tool calls of the assistant.' }),
  ),
  tool_call_id: Type.Optional(Type.String({ description: 'Tool call that a tool message answers.' })),
  function_call: Type.Optional(
    Type.Object(
      { name: Type.String(), arguments: Type.String() },
      { deprecated: true, description: 'Use `tool_calls`.' },
    ),
  ),
});

const FunctionDefinition = Type.Object({
  name: Type.String({ minLength: 1 }),
  description: Type.Optional(Type.String()),
  parameters: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), { description: 'A JSON Schema of the arguments.' }),
  ),
  strict: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
});

const Tool = Type.Object({
  type: Type.String({
    description: '`function`; other types only with `strict-open-ai-compliance: false`.',
    examples: ['function'],
  }),
  function: Type.Optional(component('FunctionDefinition')),
});

const NamedTool = Type.Object({
  type: Type.Literal('function'),
  function: Type.Object({ name: Type.String() }),
});

const ResponseFormat = Type.Union(
  [
    Type.Object({ type: Type.Literal('text') }),
    Type.Object({ type: Type.Literal('json_object') }),
    Type.Object({
      type: Type.Literal('json_schema'),
      json_schema: Type.Object({
        name: Type.String(),
        description: Type.Optional(Type.String()),
        schema: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
        strict: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
      }),
    }),
  ],
  { description: 'Text, any JSON object, or JSON of a schema.' },
);

const Thinking = Type.Object(
  { type: oneOf(['enabled', 'disabled', 'adaptive']), budget_tokens: Type.Optional(Type.Integer()) },
  {
    description:
      'Return reasoning tokens, for models that have them; needs `strict-open-ai-compliance: false`.',
  },
);

const tools = {
  tools: Type.Optional(
    Type.Array(component('ChatTool'), { maxItems: 128, description: 'At most 128 functions.' }),
  ),
  tool_choice: Type.Optional(
    Type.Union([oneOf(['none', 'auto', 'required']), NamedTool], {
      description: 'Default `none` without tools, `auto` with tools.',
    }),
  ),
  parallel_tool_calls: Type.Optional(Type.Boolean()),
  functions: Type.Optional(
    Type.Array(component('FunctionDefinition'), {
      minItems: 1,
      maxItems: 128,
      deprecated: true,
      description: 'Use `tools`.',
    }),
  ),
  function_call: Type.Optional(
    Type.Union([oneOf(['none', 'auto']), Type.Object({ name: Type.String() })], {
      deprecated: true,
      description: 'Use `tool_choice`.',
    }),
  ),
};

const sampling = {
  frequency_penalty: Penalty('Against words that were used often.'),
  presence_penalty: Penalty('Against words that were used at all.'),
  temperature: Type.Optional(
    Type.Number({
      minimum: 0,
      maximum: 2,
      default: 1,
      description: '0 to 2. Alter this or `top_p`, not both.',
    }),
  ),
  top_p: Type.Optional(Type.Number({ minimum: 0, maximum: 1, default: 1, description: '0 to 1.' })),
  seed: Type.Optional(
    Type.Integer({
      format: 'int64',
      description: 'Seed for repeatable answers, as far as the model supports it: within ±9.2e18.',
    }),
  ),
  logit_bias: Type.Optional(
    Type.Record(Type.String(), Type.Number({ minimum: -100, maximum: 100 }), {
      description: 'Bias by token id, -100 to 100.',
    }),
  ),
  logprobs: Type.Optional(Type.Boolean()),
  top_logprobs: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 20, description: '0 to 20; needs `logprobs: true`.' }),
  ),
};

const Request = Type.Object(
  {
    model: Type.String({
      description: 'A model of the provider, or `@slug/model` for a provider of the configuration.',
    }),
    messages: Type.Array(component('ChatMessage'), { minItems: 1 }),
    max_completion_tokens: Type.Optional(
      Type.Integer({ minimum: 0, description: 'Most tokens to write, reasoning included.' }),
    ),
    max_tokens: Type.Optional(
      Type.Integer({ minimum: 0, deprecated: true, description: 'Use `max_completion_tokens`.' }),
    ),
    n: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 128, default: 1, description: 'Number of answers.' }),
    ),
    stop: Type.Optional(
      Type.Union([Type.String(), Type.Array(Type.String(), { maxItems: 4 })], {
        description: 'Up to 4 stop sequences.',
      }),
    ),
    stream: Type.Optional(
      Type.Boolean({
        description: 'Stream the answer as server-sent events; the last one is `data: [DONE]`.',
      }),
    ),
    stream_options: Type.Optional(
      Type.Object(
        {
          include_usage: Type.Optional(Type.Boolean({ description: 'Send a last event with the usage.' })),
        },
        { description: 'Only with `stream: true`.' },
      ),
    ),
    ...sampling,
    ...tools,
    response_format: Type.Optional(ResponseFormat),
    thinking: Type.Optional(Thinking),
    user: Type.Optional(Type.String({ description: 'Your identifier of the end user.' })),
  },
  {
    description: 'Members that are not listed here are forwarded to the provider.',
    dependentSchemas: {
      top_logprobs: { properties: { logprobs: { const: true } }, required: ['logprobs'] },
      stream_options: { properties: { stream: { const: true } }, required: ['stream'] },
    },
  },
);

/** Requests and answers of the chat dialect, by the names of the components. */
export const chatSchemas: Readonly<Record<string, TSchema>> = {
  ChatCompletionRequest: Request,
  ChatMessage: Message,
  ChatTool: Tool,
  FunctionDefinition,
  ...chatAnswerSchemas,
};
