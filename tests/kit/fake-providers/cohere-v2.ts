import { asObject, type JsonObject, objectsOf } from '../../../adapters/dialects/json-reading.ts';
import { pathOf, sseFrame, type FakeWire, type SeenRequest } from './fake-wire.ts';
import { isJsonObjectText, Violations } from './violations.ts';

const known = new Set(
  (
    'model messages stream tools tool_choice strict_tools documents citation_options response_format safety_mode ' +
    'max_tokens stop_sequences temperature seed frequency_penalty presence_penalty k p logprobs thinking priority ' +
    'raw_prompting'
  ).split(' '),
);

/** `POST /v2/chat` as Cohere serves it. */
export const fakeCohere: FakeWire = {
  dialect: 'cohere-v2',
  asked: (request) =>
    pathOf(request) === '/v2/chat'
      ? { model: String(request.body.model), stream: request.body.stream === true }
      : undefined,
  violations,
  streamType: 'text/event-stream',
  frame: (event) => sseFrame(JSON.stringify(event), String(event.type)),
  isEndSign: (event) => event.type === 'message-end',
  errorBody: (_status, message) => ({ id: 'grid-3b1a', message }),
  errorFrame: (message) =>
    sseFrame(
      JSON.stringify({
        type: 'message-end',
        delta: { error: message, finish_reason: 'ERROR', usage: { tokens: { input_tokens: 21 } } },
      }),
      'message-end',
    ),
};

function violations({ body, headers }: SeenRequest): readonly string[] {
  const rules = new Violations();
  rules.expect(headers.authorization?.startsWith('Bearer ') === true, 'no bearer credential');
  rules.only(body, known, 'body');
  const messages = objectsOf(body.messages);
  rules.expect(messages.length > 0, 'messages: empty');
  const open = new Set<string>();
  for (const [at, message] of messages.entries()) checkMessage(rules, message, `messages[${at}]`, open);
  rules.expect(open.size === 0, `tool calls without a result: ${[...open].join(', ')}`);
  rules.expect(
    body.tool_choice === undefined || body.tool_choice === 'REQUIRED' || body.tool_choice === 'NONE',
    `tool_choice: REQUIRED or NONE, not ${JSON.stringify(body.tool_choice)}`,
  );
  return rules.found;
}

function checkMessage(rules: Violations, message: JsonObject, where: string, open: Set<string>): void {
  rules.expect(
    ['system', 'user', 'assistant', 'tool'].includes(String(message.role)),
    `${where}: role "${String(message.role)}"`,
  );
  if (message.role === 'tool') {
    const id = String(message.tool_call_id);
    rules.expect(open.delete(id), `${where}: no call "${id}" stands before this result`);
  }
  for (const call of objectsOf(message.tool_calls)) {
    rules.expect(
      isJsonObjectText(asObject(call.function)?.arguments),
      `${where}: arguments are no JSON object`,
    );
    open.add(String(call.id));
  }
  for (const part of objectsOf(message.content)) {
    rules.expect(
      ['text', 'image_url', 'document', 'thinking'].includes(String(part.type)),
      `${where}: unknown content "${String(part.type)}"`,
    );
  }
}
