import type { EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import type { ChatRequest, ReasoningSettings } from '../../../core/dialects/canonical/chat-request.ts';
import { budgetOfEffort, effortOfBudget } from '../reasoning-effort.ts';
import type { JsonObject } from '../json-reading.ts';
import type { ModelAbilities } from './model-abilities.ts';

/** Anthropic requires `max_tokens`; this is sent when the caller names no limit. */
export const defaultMaxTokens = 4096;
/** The least that Anthropic takes as a thinking budget. */
const minBudget = 1024;

/** What of the body says how the model shall think. */
export interface ThinkingPlan {
  readonly maxTokens: number;
  readonly thinking?: JsonObject;
  readonly effort?: string;
  /** The model thinks: sampling and forced tools are limited. */
  readonly thinks: boolean;
}

/** Settings as `thinking` and `output_config.effort`. */
interface Wish {
  readonly budget?: number;
  readonly adaptive?: boolean;
  readonly off?: boolean;
  readonly effort?: string;
}

/**
 * How a model is told to think (Anthropic's documentation on effort and on thinking):
 * - an effort is `output_config.effort` for models that have it, with adaptive thinking for those that have that; for
 *   older ones it is a thinking budget;
 * - a budget is adaptive thinking of the nearest effort for models that take no budget any more;
 * - `none` switches thinking off, or is the lowest effort where it cannot be.
 *
 * A budget must be less than `max_tokens`: without a limit of the caller's the limit grows, else the budget shrinks.
 */
export function planThinking(request: ChatRequest, can: ModelAbilities, report: EncodeReport): ThinkingPlan {
  const { reasoning, maxOutputTokens } = request;
  if (reasoning === undefined) return { maxTokens: maxOutputTokens ?? defaultMaxTokens, thinks: false };
  const { budget, adaptive, off, effort } = wishOf(reasoning, can, report);
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
    const room = budgetOfEffort(effort ?? 'high') ?? 0;
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

function wishOf(settings: ReasoningSettings, can: ModelAbilities, report: EncodeReport): Wish {
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
      ? { adaptive: true, ...knownEffort(effort ?? effortOfBudget(budgetTokens), can, report) }
      : {};
  }
  const wantsThinking = settings.adaptive === true || enabled === true || effort !== undefined;
  if (!wantsThinking) return {};
  if (can.adaptiveThinking) {
    return { adaptive: settings.adaptive !== false, ...knownEffort(effort, can, report) };
  }
  if (can.effort && settings.adaptive !== true && enabled !== true) return knownEffort(effort, can, report);
  return olderWish(settings, can, report);
}

/** Models with a budget alone. */
function olderWish(settings: ReasoningSettings, can: ModelAbilities, report: EncodeReport): Wish {
  const budget = budgetOfEffort(settings.effort ?? 'medium');
  if (!can.thinkingBudget || budget === undefined || settings.adaptive === false) {
    report.drop('reasoning_effort');
    return {};
  }
  report.emulate('reasoning_effort');
  return { budget };
}

/** An effort in the words that the model knows. */
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

/** Models that take a budget show their thoughts anyway, and older hosts do not know the member. */
function displayOf(summary: string | undefined, can: ModelAbilities): { readonly display?: string } {
  if (summary === undefined) return {};
  if (summary === 'none') return { display: 'omitted' };
  return can.thinkingBudget ? {} : { display: 'summarized' };
}

/**
 * With a budget, Anthropic refuses a history whose last call of a tool has no thinking before it, which is how every
 * history looks that went through a wire without thinking.
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
