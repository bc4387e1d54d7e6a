import type { AnswerFacts } from '../../../core/dialects/dialect.ts';
import { watch, type EventReader, type Watch } from '../frame-scanner.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { openAiErrorMessage } from '../openai-error.ts';
import { usageOf } from './answer-facts.ts';

/** The members for which a frame is parsed once the first token has been seen. */
export const watchedMembers: readonly Watch[] = [
  watch('usage', 'object'),
  watch('finish_reason', 'string'),
  watch('error', 'anything but null'),
];

/** Members of a delta that bring a token when they are not empty. */
const tokenMembers = [
  'content',
  'reasoning_content',
  'reasoning',
  'refusal',
  'tool_calls',
  'function_call',
  'audio',
] as const;

/** Learns usage, model, finish reasons and errors from the events of a chat or completions stream. */
export class ChatStreamReader implements EventReader {
  readonly facts: AnswerFacts = {};
  /** The end marker is `[DONE]`, which is no event. */
  readonly ended = false;
  private reasons: Map<number, string> | undefined;

  read(json: JsonObject, event: string): boolean {
    const { facts } = this;
    const model = asText(json.model);
    if (model !== undefined) facts.model ??= model;
    const usage = usageOf(json);
    if (usage !== undefined) facts.usage = usage;
    const errorMessage = openAiErrorMessage(json, event);
    if (errorMessage !== undefined) facts.errorMessage = errorMessage;
    let token = false;
    asArray(json.choices).forEach((value, position) => {
      const choice = asObject(value);
      if (choice === undefined) return;
      this.learnReason(choice, position);
      token ||= bringsToken(choice);
    });
    return token;
  }

  private learnReason(choice: JsonObject, position: number): void {
    const reason = asText(choice.finish_reason);
    if (reason === undefined) return;
    const reasons = (this.reasons ??= new Map<number, string>());
    reasons.set(choiceIndex(choice, position), reason);
    const inOrder = [...reasons].sort(([left], [right]) => left - right);
    this.facts.finishReason = inOrder.map(([, text]) => text).join(',');
  }
}

/** The index of a choice; its position where the host leaves it out. */
export function choiceIndex(choice: JsonObject, position: number): number {
  return typeof choice.index === 'number' ? choice.index : position;
}

function bringsToken(choice: JsonObject): boolean {
  if (asText(choice.text) !== undefined) return true;
  const delta = asObject(choice.delta);
  return delta !== undefined && tokenMembers.some((member) => isNotEmpty(delta[member]));
}

function isNotEmpty(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  return asText(value) !== undefined || asObject(value) !== undefined;
}
