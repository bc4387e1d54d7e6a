import type { ReasoningSettings } from '../../../core/dialects/canonical/chat-request.ts';
import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import type { EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import { asText } from '../json-reading.ts';
import { budgetOfEffort, effortOfBudget } from '../reasoning-effort.ts';
import { member } from './member.ts';

type Mutable<T> = { -readonly [member in keyof T]: T[member] };

/** Models that take no `thinkingConfig` at all. */
const thoughtless = /gemini-(?:1|2\.0)/;
/** Models that are told a budget; all later ones are told a level (ai.google.dev/gemini-api/docs/thinking). */
const budgeted = /gemini-2\.5|gemini-robotics-er-1\.5/;

/** The largest budget that a model of the 2.5 family takes, and the least (0 turns thinking off). */
function budgetBounds(model: string): { readonly least: number; readonly most: number } {
  if (model.includes('pro')) return { least: 128, most: 32_768 };
  return { least: 0, most: 24_576 };
}

/** True for Gemini 3 and later. */
export function isGemini3(model: string): boolean {
  return /gemini-(?:[3-9]|\d{2})/.test(model);
}

/** `generationConfig.thinkingConfig` for these settings; undefined when there is nothing to say. */
export function encodeThinking(
  settings: ReasoningSettings | undefined,
  model: string,
  report: EncodeReport,
): JsonObject | undefined {
  if (settings === undefined || Object.values(settings).every((value) => value === undefined))
    return undefined;
  if (thoughtless.test(model)) {
    report.drop('reasoning_effort');
    return undefined;
  }
  const off = settings.enabled === false || settings.effort?.toLowerCase() === 'none';
  const config = budgeted.test(model)
    ? budgetConfig(settings, off, model, report)
    : levelConfig(settings, off, model, report);
  if (!off && settings.summary !== 'none') config.includeThoughts = true;
  else if (settings.summary === 'none') config.includeThoughts = false;
  return Object.keys(config).length === 0 ? undefined : config;
}

function budgetConfig(
  { effort, budgetTokens, adaptive }: ReasoningSettings,
  off: boolean,
  model: string,
  report: EncodeReport,
): JsonObject {
  const { least, most } = budgetBounds(model);
  if (off) {
    if (least > 0) report.emulate('reasoning_effort');
    return { thinkingBudget: least };
  }
  if (budgetTokens !== undefined) {
    const budget = Math.min(Math.max(budgetTokens, least), most);
    if (budget !== budgetTokens) report.emulate('thinking.budget_tokens');
    return { thinkingBudget: budget };
  }
  const budget = effort === undefined ? undefined : budgetOfEffort(effort);
  if (effort !== undefined) {
    if (budget === undefined) report.drop('reasoning_effort');
    else report.emulate('reasoning_effort');
  }
  if (budget !== undefined) return { thinkingBudget: Math.min(budget, most) };
  return adaptive === true ? { thinkingBudget: -1 } : {};
}

/** Levels by effort. These models cannot stop thinking: `minimal` is the least, for Pro models `low`. */
const levels: Readonly<Record<string, string>> = {
  none: 'minimal',
  minimal: 'minimal',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'high',
  max: 'high',
};

function levelConfig(
  { effort, budgetTokens }: ReasoningSettings,
  off: boolean,
  model: string,
  report: EncodeReport,
): JsonObject {
  const fromBudget = budgetTokens === undefined ? undefined : effortOfBudget(budgetTokens);
  const wanted = off ? 'none' : (effort?.toLowerCase() ?? fromBudget);
  if (wanted === undefined) return {};
  let level = Object.hasOwn(levels, wanted) ? levels[wanted] : undefined;
  if (level === undefined) {
    report.drop('reasoning_effort');
    return {};
  }
  if (level === 'minimal' && model.includes('pro')) level = 'low';
  // The first Pro model of the family knows `low` and `high` alone.
  if (level === 'medium' && /gemini-3-pro/.test(model)) level = 'high';
  if (level !== wanted) report.emulate('reasoning_effort');
  else if (effort === undefined) report.emulate('thinking.budget_tokens');
  return { thinkingLevel: level };
}

/** The settings that a `thinkingConfig` asks for. */
export function decodeThinking(config: JsonObject): ReasoningSettings | undefined {
  const settings: Mutable<ReasoningSettings> = {};
  const budget = member(config, 'thinkingBudget');
  if (typeof budget === 'number') {
    if (budget === 0) settings.enabled = false;
    else if (budget < 0) settings.adaptive = true;
    else settings.budgetTokens = budget;
  }
  const level = asText(member(config, 'thinkingLevel'))?.toLowerCase();
  if (level !== undefined && level !== 'thinking_level_unspecified') settings.effort = level;
  const shown = member(config, 'includeThoughts');
  if (typeof shown === 'boolean') settings.summary = shown ? 'auto' : 'none';
  return Object.keys(settings).length === 0 ? undefined : settings;
}
