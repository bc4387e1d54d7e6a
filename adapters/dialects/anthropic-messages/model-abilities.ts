import type { EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatRequest, ReasoningSettings } from '../../../core/dialects/canonical/chat-request.ts';
import { reasoningEffort } from '../request-settings.ts';
import type { JsonObject } from '../json-reading.ts';

/** Anthropic requires `max_tokens`; this is sent when the caller names no limit. */
const defaultMaxTokens = 4096;
/** Smallest thinking budget that Anthropic accepts. */
const minBudget = 1024;

/** Thinking settings of the body. */
export interface ThinkingPlan {
  readonly maxTokens: number;
  readonly thinking?: JsonObject;
  readonly effort?: string;
  /** The model thinks: sampling and forced tools are limited. */
  readonly thinks: boolean;
}

/** Settings as `thinking` and `output_config.effort`. */
interface ThinkingRequest {
  readonly budget?: number;
  readonly adaptive?: boolean;
  readonly off?: boolean;
  readonly effort?: string;
}

/**
 * Maps reasoning settings to a model (Anthropic's documentation on effort and on thinking):
 * - an effort becomes `output_config.effort` for models that support it, with adaptive thinking where that is
 *   supported; for older models it becomes a thinking budget;
 * - a budget becomes adaptive thinking with the nearest effort for models that no longer accept budgets;
 * - `none` turns thinking off, or becomes the lowest effort where thinking cannot be turned off.
 *
 * A budget must be less than `max_tokens`: without a limit of the caller's the limit grows, else the budget shrinks.
 */
export function planThinking(request: ChatRequest, can: ModelAbilities, report: EncodeReport): ThinkingPlan {
  const { reasoning, maxOutputTokens } = request;
  if (reasoning === undefined) return { maxTokens: maxOutputTokens ?? defaultMaxTokens, thinks: false };
  const { budget, adaptive, off, effort } = thinkingFor(reasoning, can, report);
  const display = displayOf(reasoning.summary, can);
  const told = effort === undefined ? {} : { effort };
  if (budget !== undefined) {
    const maxTokens = maxOutputTokens ?? budget + defaultMaxTokens;
    if (maxTokens <= minBudget || lacksThinking(request)) {
      report.drop('reasoning_effort');
      return { maxTokens: maxOutputTokens ?? defaultMaxTokens, thinks: false, ...told };
    }
    const fitting = Math.min(budget, maxTokens - 1);
    if (fitting < budget) report.emulate('reasoning_effort');
    return {
      maxTokens,
      thinking: { type: 'enabled', budget_tokens: fitting, ...display },
      thinks: true,
      ...told,
    };
  }
  if (adaptive === true) {
    const room = reasoningEffort.budget(effort ?? 'high') ?? 0;
    return {
      maxTokens: maxOutputTokens ?? defaultMaxTokens + room,
      thinking: { type: 'adaptive', ...display },
      thinks: true,
      ...told,
    };
  }
  if (reasoning.summary !== undefined && off !== true) report.drop('reasoning.summary');
  return {
    maxTokens: maxOutputTokens ?? defaultMaxTokens,
    ...(off === true ? { thinking: { type: 'disabled' } } : {}),
    thinks: false,
    ...told,
  };
}

function thinkingFor(
  settings: ReasoningSettings,
  can: ModelAbilities,
  report: EncodeReport,
): ThinkingRequest {
  const { effort, budgetTokens, enabled } = settings;
  if (enabled === false || effort === 'none' || (budgetTokens !== undefined && budgetTokens <= 0)) {
    if (can.thinkingOff)
      return { off: true, ...knownEffort(enabled === false ? effort : undefined, can, report) };
    if (!can.effort) return {};
    report.emulate('reasoning_effort');
    return { effort: 'low' };
  }
  if (budgetTokens !== undefined) {
    if (can.thinkingBudget) {
      return { budget: Math.max(minBudget, budgetTokens), ...knownEffort(effort, can, report) };
    }
    report.emulate('thinking.budget_tokens');
    return can.adaptiveThinking
      ? { adaptive: true, ...knownEffort(effort ?? reasoningEffort.ofBudget(budgetTokens), can, report) }
      : {};
  }
  const wantsThinking = settings.adaptive === true || enabled === true || effort !== undefined;
  if (!wantsThinking) return {};
  if (can.adaptiveThinking) {
    return { adaptive: settings.adaptive !== false, ...knownEffort(effort, can, report) };
  }
  if (can.effort && settings.adaptive !== true && enabled !== true) return knownEffort(effort, can, report);
  return budgetThinkingFor(settings, can, report);
}

/** Settings for models that support a budget alone. */
function budgetThinkingFor(
  settings: ReasoningSettings,
  can: ModelAbilities,
  report: EncodeReport,
): ThinkingRequest {
  const budget = reasoningEffort.budget(settings.effort ?? 'medium');
  if (!can.thinkingBudget || budget === undefined || settings.adaptive === false) {
    report.drop('reasoning_effort');
    return {};
  }
  report.emulate('reasoning_effort');
  return { budget };
}

/** The nearest effort that the model knows. */
function knownEffort(
  effort: string | undefined,
  can: ModelAbilities,
  report: EncodeReport,
): { readonly effort?: string } {
  if (effort === undefined) return {};
  if (!can.effort) {
    report.drop('reasoning_effort');
    return {};
  }
  const word = effort.toLowerCase();
  const known = wordFor(word, can);
  if (known === undefined) report.drop('reasoning_effort');
  else if (known !== word) report.emulate('reasoning_effort');
  return known === undefined ? {} : { effort: known };
}

function wordFor(word: string, can: ModelAbilities): string | undefined {
  switch (word) {
    case 'low':
    case 'medium':
    case 'high':
      return word;
    case 'minimal':
      return 'low';
    case 'xhigh':
      return can.effortXhigh ? word : can.effortMax ? 'max' : 'high';
    case 'max':
      return can.effortMax ? word : 'high';
    default:
      return undefined;
  }
}

/** Models with a budget show their thoughts anyway, and older hosts do not know the member. */
function displayOf(summary: string | undefined, can: ModelAbilities): { readonly display?: string } {
  if (summary === undefined) return {};
  if (summary === 'none') return { display: 'omitted' };
  return can.thinkingBudget ? {} : { display: 'summarized' };
}

/**
 * With a budget, Anthropic refuses a history whose last tool call has no thinking before it. Every history that passed
 * through a wire without thinking has this form.
 */
function lacksThinking({ messages }: ChatRequest): boolean {
  const last = messages.findLast(({ role }) => role === 'assistant');
  if (last === undefined || !messages.slice(messages.indexOf(last)).some(({ role }) => role === 'tool')) {
    return false;
  }
  return !last.parts.some(
    (part) => part.type === 'reasoning' && (part.signature !== undefined || part.redacted !== undefined),
  );
}

/** Features of a model. Anthropic answers 400 to a request that uses an unsupported one. */
export interface ModelAbilities {
  /** `output_config.effort`. */
  readonly effort: boolean;
  /** The effort `xhigh`. */
  readonly effortXhigh: boolean;
  /** The effort `max`. */
  readonly effortMax: boolean;
  /** `thinking: { type: 'adaptive' }`. */
  readonly adaptiveThinking: boolean;
  /** `thinking: { type: 'enabled', budget_tokens }`. */
  readonly thinkingBudget: boolean;
  /** `thinking: { type: 'disabled' }`. */
  readonly thinkingOff: boolean;
  /** `temperature`, `top_p`, `top_k`. */
  readonly sampling: boolean;
  /** `temperature` and `top_p` together. */
  readonly bothSampling: boolean;
  /** `output_config.format`, and `strict` tools. */
  readonly structuredOutput: boolean;
  /** `tool_choice` of `any` and `tool`. */
  readonly forcedTool: boolean;
}

/** Families that always think. */
const alwaysThinking: ReadonlySet<string> = new Set(['fable', 'mythos']);

/** Assumed version of a name without a version: newer than every known rule. */
const latest = 99;

/**
 * Features of a model according to Anthropic's documentation (pages on thinking, effort, structured outputs and the
 * model overview), by family and version anywhere in the name (`anthropic.claude-opus-4-5-20251101-v1:0`). Models of
 * other makers behind this wire get the features that it had before effort and structured outputs.
 */
export function abilitiesOf(model: string): ModelAbilities {
  const { family, version } = readName(model.toLowerCase());
  const alwaysThinks =
    alwaysThinking.has(family) || (version >= 5.05 && (family === 'opus' || family === 'sonnet'));
  return {
    effort: version >= 4.06 || (family === 'opus' && version >= 4.05),
    effortXhigh: version >= 4.07,
    effortMax: version >= 4.06,
    adaptiveThinking: version >= 4.06,
    thinkingBudget: version >= 3.07 && version <= 4.06,
    thinkingOff: version >= 3.07 && !alwaysThinks,
    sampling: version < 4.07,
    bothSampling: version < 4.01 || family === '',
    structuredOutput: version >= 4.05 || (family === 'opus' && version >= 4.01),
    forcedTool: !(alwaysThinks && version >= 5.01),
  };
}

/** Version 4.5 is 4.05, so that 4.10 sorts after 4.9. */
function readName(model: string): { readonly family: string; readonly version: number } {
  if (!model.includes('claude')) return { family: '', version: 4 };
  const family = /claude.*?(opus|sonnet|haiku|fable|mythos|instant)/.exec(model)?.[1] ?? 'claude';
  if (family === 'instant') return { family, version: 1 };
  // Numbers of more than two digits are dates.
  const digits = /claude(?:-[a-z]+)*-v?(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?/.exec(model);
  if (digits === null) return { family, version: latest };
  return { family, version: Number(digits[1]) + Number(digits[2] ?? 0) / 100 };
}
