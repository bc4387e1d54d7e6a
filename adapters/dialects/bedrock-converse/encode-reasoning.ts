import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatRequest, ReasoningSettings } from '../../../core/dialects/canonical/chat-request.ts';
import { planThinking } from '../anthropic-messages/encode-thinking.ts';
import { abilitiesOf } from '../anthropic-messages/model-abilities.ts';
import { effortOfBudget } from '../reasoning-effort.ts';
import { isNova2 } from './bedrock-model.ts';
import type { ContentContext } from './encode-content.ts';

/** How a model is made to think, in its vendor's own words. */
export interface EncodedReasoning {
  /** Members of `additionalModelRequestFields`. */
  readonly fields: JsonObject;
  /** Claude thinks: some other settings are not allowed then. */
  readonly thinking: boolean;
  /** Nova thinks at its hardest: it refuses every setting of the sampling, and a limit. */
  readonly unbounded: boolean;
  /** A limit that the thinking needs where the caller names none. */
  readonly maxTokens?: number;
}

const none: EncodedReasoning = { fields: {}, thinking: false, unbounded: false };

/** The reasoning settings in the words of the model's vendor; what it has no words for is reported. */
export function encodeReasoningSettings(request: ChatRequest, context: ContentContext): EncodedReasoning {
  const settings = request.reasoning;
  if (settings === undefined) return none;
  const { model, report } = context;
  if (model.vendor === 'anthropic') return claudeThinking(request, context);
  const off = settings.enabled === false || settings.effort === 'none';
  if (isNova2(model)) return novaReasoning(settings, off, context);
  const effort = effortOf(settings);
  if (model.vendor === 'openai' && effort !== undefined) {
    if (settings.summary !== undefined) report.drop('reasoning.summary');
    return { ...none, fields: { reasoning_effort: effort } };
  }
  // A model that cannot think obeys the wish not to.
  if (!off) report.drop(nameOf(settings));
  return none;
}

/** The setting as the caller called it. */
function nameOf({ effort }: ReasoningSettings): string {
  return effort === undefined ? 'thinking' : 'reasoning_effort';
}

function effortOf({ effort, budgetTokens, enabled }: ReasoningSettings): string | undefined {
  if (effort !== undefined) return effort;
  if (budgetTokens !== undefined) return effortOfBudget(budgetTokens);
  return enabled === true ? 'medium' : undefined;
}

/** Efforts of this model are a beta on Bedrock. */
const effortBeta = /^claude-opus-4-5(?!\d)/;

function claudeThinking(request: ChatRequest, { model, report }: ContentContext): EncodedReasoning {
  const { thinking, effort, thinks, maxTokens } = planThinking(request, abilitiesOf(model.name), report);
  const fields: JsonObject = {};
  if (thinking !== undefined) fields.thinking = thinking;
  if (effort !== undefined) {
    fields.output_config = { effort };
    if (effortBeta.test(model.name)) fields.anthropic_beta = ['effort-2025-11-24'];
  }
  const needed = thinking?.budget_tokens !== undefined && request.maxOutputTokens === undefined;
  return { fields, thinking: thinks, unbounded: false, ...(needed ? { maxTokens } : {}) };
}

function novaReasoning(
  settings: ReasoningSettings,
  off: boolean,
  { report }: ContentContext,
): EncodedReasoning {
  if (off) return { ...none, fields: { reasoningConfig: { type: 'disabled' } } };
  const wish = effortOf(settings) ?? 'medium';
  const effort = wish === 'low' || wish === 'medium' || wish === 'high' ? wish : novaEffort(wish);
  if (effort !== settings.effort) report.emulate(nameOf(settings));
  return {
    fields: { reasoningConfig: { type: 'enabled', maxReasoningEffort: effort } },
    thinking: false,
    unbounded: effort === 'high',
  };
}

function novaEffort(wish: string): 'low' | 'high' {
  return wish === 'minimal' ? 'low' : 'high';
}
