import type { JsonObject } from '../../core/dialects/canonical/chat-part.ts';
import type { DialectName } from '../../core/dialects/endpoint.ts';

/** Wires with a request for the next turn of a conversation. */
export type Ingress =
  'openai-chat' | 'openai-responses' | 'anthropic-messages' | 'google-gemini' | 'openai-completions';

/** A feature of a request. */
export interface RequestFeature {
  readonly name: string;
  /**
   * Request members by the client's wire; wires that cannot express it are absent. They override the wire's plain
   * request.
   */
  readonly said: Readonly<Partial<Record<Ingress, JsonObject>>>;
  /** The request without the feature is one with this other feature, not the plain one. */
  readonly over?: string;
  /**
   * Must occur in the provider's request when the feature is kept. Without it, any difference from the request without
   * the feature counts.
   */
  readonly marker?: RegExp;
  /** Requires a model that thinks. */
  readonly thinks?: true;
  readonly stream?: true;
  /** Wires that do so by default. */
  readonly inherent?: readonly DialectName[];
  /** Members that depend on the provider's wire. */
  readonly saidTo?: (egress: DialectName) => JsonObject;
}

/** The minimal request of each wire: one word. */
export const plainRequests: Readonly<Record<Ingress, JsonObject>> = {
  'openai-chat': { messages: [{ role: 'user', content: 'Hello.' }] },
  'openai-responses': {
    input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hello.' }] }],
  },
  'anthropic-messages': { max_tokens: 16_000, messages: [{ role: 'user', content: 'Hello.' }] },
  'google-gemini': { contents: [{ role: 'user', parts: [{ text: 'Hello.' }] }] },
  'openai-completions': { prompt: 'Hello.' },
};

/** A chat completions request with a greeting and these parts from the user. */
export function chatUser(...parts: readonly JsonObject[]): JsonObject {
  return { messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello.' }, ...parts] }] };
}

/** The same for Responses. */
export function responsesUser(...parts: readonly JsonObject[]): JsonObject {
  const content = [{ type: 'input_text', text: 'Hello.' }, ...parts];
  return { input: [{ type: 'message', role: 'user', content }] };
}

/** The same for Messages. */
export function messagesUser(...parts: readonly JsonObject[]): JsonObject {
  return { messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello.' }, ...parts] }] };
}

/** The same for Gemini. */
export function geminiUser(...parts: readonly JsonObject[]): JsonObject {
  return { contents: [{ role: 'user', parts: [{ text: 'Hello.' }, ...parts] }] };
}
