import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import type { RequestIssue } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { asObject } from '../json-reading.ts';
import { bodyIssue, describeValue, issueOf } from '../request-members.ts';
import { type TSchema, Type } from 'typebox';

/**
 * Bounds of a number in a request. A custom keyword, because `type: integer` refuses the BigInt of an integer beyond
 * 2^53, and because null means "not given".
 */
interface NumberRule {
  readonly whole: boolean;
  readonly minimum: number;
  readonly maximum: number;
}

/** Name of that keyword. */
const numberKeyword = 'numberWithin';

/** Published range of `seed`; slightly wider than 64 bits, as in OpenAI's specification. */
const seedBound = 9_223_372_036_854_776_000;

const number = (minimum: number, maximum: number): TSchema =>
  numberSchema({ whole: false, minimum, maximum });
const integer = (minimum: number, maximum: number): TSchema =>
  numberSchema({ whole: true, minimum, maximum });
const count = integer(0, Number.MAX_VALUE);
const boolean = Type.Unsafe({ type: ['boolean', 'null'] });
const string = Type.Unsafe({ type: ['string', 'null'] });

const FunctionDefinition = Type.Object({ name: Type.String() });

/**
 * Only the specification's rule for a tool: a function needs a name. Other types are refused in strict requests alone.
 */
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

/** `POST /chat/completions`. Members outside the schema pass. */
const ChatRequestSchema = Type.Object({
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

/** `POST /moderations`. Arrays pass; models outside the specification are refused in strict requests alone. */
const ModerationRequestSchema = Type.Object({
  input: Type.Unsafe({ type: ['string', 'array'], items: { type: ['string', 'object'] } }),
  model: Type.Optional(string),
});

function numberSchema(rule: NumberRule): TSchema {
  return Type.Unsafe({ [numberKeyword]: rule });
}

const ajv = new Ajv2020({ allErrors: false, verbose: true, allowUnionTypes: true });
ajv.addKeyword({ keyword: numberKeyword, schemaType: 'object', compile: numberCheck, errors: true });

const validators: Partial<Record<EndpointId, ValidateFunction>> = {
  'chat.completions': ajv.compile(ChatRequestSchema),
  moderations: ajv.compile(ModerationRequestSchema),
};

/** The first rule of the specification that a body violates. Null means "not given" in optional members. */
export function validateRequest(
  endpoint: EndpointId,
  body: unknown,
  strict: boolean,
): RequestIssue | undefined {
  const unusable = bodyIssue(body);
  const validate = validators[endpoint];
  if (unusable !== undefined || validate === undefined) return unusable;
  if (!validate(body)) {
    const [first] = validate.errors ?? [];
    return first === undefined ? undefined : issueOf(first, body);
  }
  const strictly = strict ? strictIssue(endpoint, asObject(body) ?? {}) : undefined;
  return strictly ?? (endpoint === 'chat.completions' ? dependentIssue(body, strict) : undefined);
}

const moderationModels: ReadonlySet<unknown> = new Set(['text-moderation-stable', 'text-moderation-latest']);

/**
 * Issue of a member outside the specification, which newer or other hosts accept: it passes unless compliance is
 * strict.
 */
function strictIssue(
  endpoint: EndpointId,
  { model, tools, tool_choice: choice }: Readonly<Record<string, unknown>>,
): RequestIssue | undefined {
  if (endpoint === 'moderations') {
    if (!isGiven(model) || moderationModels.has(model)) return undefined;
    return outOfRangeIssue('model', `'text-moderation-stable' or 'text-moderation-latest'`, model);
  }
  if (Array.isArray(tools)) {
    const at = tools.findIndex((tool) => asObject(tool)?.type !== 'function');
    if (at !== -1) return outOfRangeIssue(`tools[${at}].type`, "'function'", asObject(tools[at])?.type);
  }
  const chosen = asObject(choice);
  if (chosen === undefined || chosen.type === 'function') return undefined;
  return outOfRangeIssue('tool_choice.type', "'function'", chosen.type);
}

function outOfRangeIssue(param: string, rule: string, found: unknown): RequestIssue {
  return {
    param,
    message: `${param} must be ${rule}; found ${describeValue(found)}. Others are sent on when strict_openai_compliance is false.`,
  };
}

/** Rules across members. */
function dependentIssue(body: unknown, strict: boolean): RequestIssue | undefined {
  const request = asObject(body) ?? {};
  if (isGiven(request.top_logprobs) && request.logprobs !== true) {
    return {
      param: 'top_logprobs',
      message: `top_logprobs requires logprobs to be true; found ${describeValue(request.logprobs)}.`,
    };
  }
  if (isGiven(request.stream_options) && request.stream !== true) {
    return {
      param: 'stream_options',
      message: `stream_options is only allowed when stream is true; found ${describeValue(request.stream)}.`,
    };
  }
  if (isGiven(request.thinking) && strict) {
    return {
      param: 'thinking',
      message: 'thinking is no part of the OpenAI API: it requires strict_openai_compliance to be false.',
    };
  }
  return undefined;
}

/** Null counts as an absent member. */
function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

interface NumberCheck {
  (value: unknown): boolean;
  errors?: { keyword: string; params: { rule: string } }[];
}

function numberCheck(rule: NumberRule): NumberCheck {
  const errors = [{ keyword: numberKeyword, params: { rule: describeRule(rule) } }];
  const check: NumberCheck = (value) => {
    if (value === null) return true;
    const fits =
      (typeof value === 'bigint' || (rule.whole ? Number.isInteger(value) : Number.isFinite(value))) &&
      (value as number | bigint) >= rule.minimum &&
      (value as number | bigint) <= rule.maximum;
    if (!fits) check.errors = errors;
    return fits;
  };
  return check;
}

function describeRule({ whole, minimum, maximum }: NumberRule): string {
  const kind = whole ? 'be an integer' : 'be a number';
  return maximum === Number.MAX_VALUE
    ? `${kind} of at least ${minimum}`
    : `${kind} between ${minimum} and ${maximum}`;
}
