import { Type, type TSchema } from 'typebox';

/**
 * Bounds of a number in a request. A keyword of our own, because `type: integer` refuses the BigInt in which an
 * integer beyond 2^53 arrives, and because null stands for "not given".
 */
export interface NumberRule {
  readonly whole: boolean;
  readonly minimum: number;
  readonly maximum: number;
}

/** The name of that keyword. */
export const numberKeyword = 'numberWithin';

/** Published range of `seed`; a little wider than 64 bits, as OpenAI writes it. */
const seedBound = 9_223_372_036_854_776_000;

const number = (minimum: number, maximum: number): TSchema => within({ whole: false, minimum, maximum });
const integer = (minimum: number, maximum: number): TSchema => within({ whole: true, minimum, maximum });
const count = integer(0, Number.MAX_VALUE);
const boolean = Type.Unsafe({ type: ['boolean', 'null'] });
const string = Type.Unsafe({ type: ['string', 'null'] });

const FunctionDefinition = Type.Object({ name: Type.String() });

/** Only what the specification says of a tool: a function needs a name. Other types are refused in strict requests alone. */
const Tool = Type.Unsafe({
  type: 'object',
  required: ['type'],
  properties: { type: { type: 'string' } },
  if: { type: 'object', required: ['type'], properties: { type: { const: 'function' } } },
  then: { type: 'object', required: ['function'], properties: { function: FunctionDefinition } },
});

/** A function choice names its function. Other types (`allowed_tools`, `custom`) are refused in strict requests alone. */
const ToolChoice = Type.Unsafe({
  type: ['string', 'object', 'null'],
  if: { type: 'object', properties: { type: { const: 'function' } } },
  then: { type: 'object', required: ['function'], properties: { function: FunctionDefinition } },
  else: { if: { type: 'string' }, then: { enum: ['none', 'auto', 'required'] } },
});

/** `POST /chat/completions`. Members that are not named here travel. */
export const ChatRequestSchema = Type.Object({
  messages: Type.Array(
    Type.Object({
      role: Type.Unsafe({ enum: ['system', 'developer', 'user', 'assistant', 'tool', 'function'] }),
    }),
    { minItems: 1 },
  ),
  model: Type.String(),
  frequency_penalty: Type.Optional(number(-2, 2)),
  presence_penalty: Type.Optional(number(-2, 2)),
  logit_bias: Type.Optional(
    Type.Unsafe({ type: ['object', 'null'], additionalProperties: number(-100, 100) }),
  ),
  logprobs: Type.Optional(boolean),
  top_logprobs: Type.Optional(integer(0, 20)),
  max_tokens: Type.Optional(count),
  max_completion_tokens: Type.Optional(count),
  n: Type.Optional(integer(1, 128)),
  response_format: Type.Optional(
    Type.Unsafe({
      type: ['object', 'null'],
      required: ['type'],
      properties: { type: { enum: ['text', 'json_schema', 'json_object'] } },
    }),
  ),
  seed: Type.Optional(integer(-seedBound, seedBound)),
  stop: Type.Optional(
    Type.Unsafe({ type: ['string', 'array', 'null'], maxItems: 4, items: { type: 'string' } }),
  ),
  stream: Type.Optional(boolean),
  stream_options: Type.Optional(Type.Unsafe({ type: ['object', 'null'] })),
  thinking: Type.Optional(
    Type.Unsafe({
      type: ['object', 'null'],
      required: ['type', 'budget_tokens'],
      properties: {
        type: { const: 'enabled' },
        budget_tokens: { allOf: [{ not: { type: 'null' } }, count] },
      },
    }),
  ),
  temperature: Type.Optional(number(0, 2)),
  top_p: Type.Optional(number(0, 1)),
  tools: Type.Optional(Type.Unsafe({ type: ['array', 'null'], maxItems: 128, items: Tool })),
  tool_choice: Type.Optional(ToolChoice),
  parallel_tool_calls: Type.Optional(boolean),
  user: Type.Optional(string),
  function_call: Type.Optional(
    Type.Unsafe({
      type: ['string', 'object', 'null'],
      if: { type: 'string' },
      then: { enum: ['none', 'auto'] },
      else: { if: { type: 'object' }, then: FunctionDefinition },
    }),
  ),
  functions: Type.Optional(
    Type.Unsafe({ type: ['array', 'null'], minItems: 1, maxItems: 128, items: FunctionDefinition }),
  ),
});

/** `POST /moderations`. Arrays travel; models that the specification does not name are refused in strict requests alone. */
export const ModerationRequestSchema = Type.Object({
  input: Type.Unsafe({ type: ['string', 'array'], items: { type: ['string', 'object'] } }),
  model: Type.Optional(string),
});

function within(rule: NumberRule): TSchema {
  return Type.Unsafe({ [numberKeyword]: rule });
}
