import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import type { RequestIssue } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { asObject } from '../json-reading.ts';
import { bodyIssue, describeValue, issueOf } from '../request-issue.ts';
import {
  ChatRequestSchema,
  ModerationRequestSchema,
  numberKeyword,
  type NumberRule,
} from './request-schema.ts';

const ajv = new Ajv2020({ allErrors: false, verbose: true, allowUnionTypes: true });
ajv.addKeyword({ keyword: numberKeyword, schemaType: 'object', compile: numberCheck, errors: true });

const validators: Partial<Record<EndpointId, ValidateFunction>> = {
  'chat.completions': ajv.compile(ChatRequestSchema),
  moderations: ajv.compile(ModerationRequestSchema),
};

/** The first rule of the specification that a body breaks. Null stands for "not given" in optional members. */
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

/** What the specification has no place for, and newer or other hosts have: it travels where compliance is not strict. */
function strictIssue(
  endpoint: EndpointId,
  { model, tools, tool_choice: choice }: Readonly<Record<string, unknown>>,
): RequestIssue | undefined {
  if (endpoint === 'moderations') {
    if (!isGiven(model) || moderationModels.has(model)) return undefined;
    return beyond('model', `'text-moderation-stable' or 'text-moderation-latest'`, model);
  }
  if (Array.isArray(tools)) {
    const at = tools.findIndex((tool) => asObject(tool)?.type !== 'function');
    if (at !== -1) return beyond(`tools[${at}].type`, "'function'", asObject(tools[at])?.type);
  }
  const chosen = asObject(choice);
  if (chosen === undefined || chosen.type === 'function') return undefined;
  return beyond('tool_choice.type', "'function'", chosen.type);
}

function beyond(param: string, rule: string, found: unknown): RequestIssue {
  return {
    param,
    message: `${param} must be ${rule}; found ${describeValue(found)}. Others are sent on when strict_openai_compliance is false.`,
  };
}

/** Rules that tie one member to another. */
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

/** Null stands for a member that is not there. */
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
