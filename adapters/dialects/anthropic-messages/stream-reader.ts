import type { AnswerFacts } from '../../../core/dialects/dialect.ts';
import { watch, type EventReader, type Watch } from '../frame-scanner.ts';
import { asObject, asText, type JsonObject } from '../json-reading.ts';
import { anthropicErrorMessage, decodeAnthropicUsage } from './message-facts.ts';

/** The members for which a frame is parsed once the first token has been seen. */
export const watchedMembers: readonly Watch[] = [
  watch('usage', 'object'),
  watch('stop_reason', 'string'),
  watch('error', 'anything but null'),
  watch('message_stop', 'anything but null'),
];

/** Members of a content delta that bring a token when they are not empty. */
const tokenMembers = ['text', 'thinking', 'partial_json'] as const;

/** Learns usage, model, stop reason and errors from the events of a message stream. */
export class MessageStreamReader implements EventReader {
  readonly facts: AnswerFacts = {};
  ended = false;
  /** `message_start` counts the prompt, each `message_delta` what has been said so far: later members win. */
  private readonly usage: JsonObject = {};

  read(json: JsonObject, event: string): boolean {
    const type = asText(json.type) ?? event;
    const message = asObject(json.message);
    const delta = asObject(json.delta);
    const { facts } = this;
    const model = asText(message?.model);
    if (model !== undefined) facts.model ??= model;
    this.learnUsage(asObject(message?.usage) ?? asObject(json.usage));
    const reason = asText(delta?.stop_reason) ?? asText(message?.stop_reason);
    if (reason !== undefined) facts.finishReason = reason;
    const errorMessage = anthropicErrorMessage(json, event);
    if (errorMessage !== undefined) facts.errorMessage = errorMessage;
    if (type === 'message_stop') this.ended = true;
    // A tool call's name is said when its block begins.
    if (type === 'content_block_start') return asText(asObject(json.content_block)?.name) !== undefined;
    return (
      type === 'content_block_delta' && tokenMembers.some((member) => asText(delta?.[member]) !== undefined)
    );
  }

  private learnUsage(usage: JsonObject | undefined): void {
    if (usage === undefined) return;
    for (const [member, value] of Object.entries(usage)) if (value !== null) this.usage[member] = value;
    const decoded = decodeAnthropicUsage(this.usage);
    if (decoded !== undefined) this.facts.usage = decoded;
  }
}
