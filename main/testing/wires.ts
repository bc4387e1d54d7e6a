import type { JsonObject } from '../../adapters/dialects/json-reading.ts';
import { parseObject } from '../../adapters/dialects/json-reading.ts';
import { chatClient } from './clients/chat.ts';
import { completionsListener } from './clients/completions.ts';
import { geminiClient } from './clients/gemini.ts';
import { messagesClient } from './clients/messages.ts';
import { responsesClient } from './clients/responses.ts';
import type { Wire } from './contract.ts';
import { framesOf, type Heard, type Listener, nothingHeard } from './heard.ts';

/** Makes a wire's request for a prompt, and reads the answer. */
interface Speaking {
  readonly listener: Listener;
  /** The smallest request, without model and stream. */
  body(prompt: string): JsonObject;
  /** Model and stream stand in the path instead of the body. */
  readonly inPath?: true;
}

const userMessages = (content: string): JsonObject => ({ messages: [{ role: 'user', content }] });

/** By wire. */
export const speaking: Readonly<Record<Wire, Speaking>> = {
  chat: { listener: chatClient, body: userMessages },
  completions: { listener: completionsListener, body: (prompt) => ({ prompt }) },
  responses: { listener: responsesClient, body: (input) => ({ input }) },
  messages: {
    listener: messagesClient,
    body: (prompt) => ({ max_tokens: 1000, ...userMessages(prompt) }),
  },
  gemini: {
    listener: geminiClient,
    body: (text) => ({ contents: [{ role: 'user', parts: [{ text }] }] }),
    inPath: true,
  },
};

/** An answer as it came. */
interface Received {
  readonly status: number;
  readonly contentType: string;
  readonly body: Buffer;
}

/** Reads an answer, whole or streamed, as a strict client of the wire; `problems` lists the parts that it rejects. */
export function hear(wire: Wire, { status, contentType, body }: Received): Heard {
  const { listener } = speaking[wire];
  if (contentType.startsWith('text/event-stream')) {
    const heard = listener.hearStream(framesOf(body));
    if (!heard.ended && heard.error === undefined)
      heard.problems.push('the stream ends without its end mark');
    return heard;
  }
  const answer = parseObject(body.toString('utf8'));
  if (answer !== undefined && status < 400) return listener.hear(answer);
  const heard = nothingHeard();
  heard.error = answer && listener.hearError(answer);
  if (heard.error === undefined) heard.problems.push("the answer has not the shape of the wire's errors");
  return heard;
}
