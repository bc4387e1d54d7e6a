import type { JsonObject } from '../../core/dialects/canonical/chat-part.ts';
import type { DialectName } from '../../core/dialects/endpoint.ts';

/** Wires in which a client asks for the next turn of a conversation. */
export type Ingress =
  'openai-chat' | 'openai-responses' | 'anthropic-messages' | 'google-gemini' | 'openai-completions';

/** Something that a request can say. */
export interface RequestFeature {
  readonly name: string;
  /** Request members by the client's wire; wires that cannot say it are absent. They stand over the wire's plain request. */
  readonly said: Readonly<Partial<Record<Ingress, JsonObject>>>;
  /** The request without the feature is not the plain one, but one with this feature. */
  readonly over?: string;
  /** Must stand in the provider's request when it is kept. Without it, any difference to the request without the feature counts. */
  readonly marker?: RegExp;
  /** Only a model that thinks can be asked for it. */
  readonly thinks?: true;
  readonly stream?: true;
  /** Wires that do so without being told. */
  readonly inherent?: readonly DialectName[];
  /** Members that depend on the provider's wire. */
  readonly saidTo?: (egress: DialectName) => JsonObject;
}

/** The request of each wire that says nothing but one word. */
export const plainRequests: Readonly<Record<Ingress, JsonObject>> = {
  'openai-chat': { messages: [{ role: 'user', content: 'Hello.' }] },
  'openai-responses': {
    input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hello.' }] }],
  },
  'anthropic-messages': { max_tokens: 16_000, messages: [{ role: 'user', content: 'Hello.' }] },
  'google-gemini': { contents: [{ role: 'user', parts: [{ text: 'Hello.' }] }] },
  'openai-completions': { prompt: 'Hello.' },
};

/** A chat completions request whose user says hello and these parts. */
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
