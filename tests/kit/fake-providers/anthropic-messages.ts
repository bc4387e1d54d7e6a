import { asObject, type JsonObject, objectsOf } from '../../../adapters/dialects/json-reading.ts';
import { pathOf, sseFrame, type FakeWire, type SeenRequest } from './fake-wire.ts';
import { isBase64, Violations } from './violations.ts';

const known = new Set(
  (
    'model messages system max_tokens stream tools tool_choice temperature top_p top_k stop_sequences metadata ' +
    'service_tier thinking output_format output_config container mcp_servers context_management inference_geo ' +
    'cache_control'
  ).split(' '),
);
const errorTypes: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  429: 'rate_limit_error',
  500: 'api_error',
  529: 'overloaded_error',
};

/** `POST /anthropic/v1/messages` as Anthropic serves it. */
export const fakeAnthropicMessages: FakeWire = {
  dialect: 'anthropic-messages',
  asked: (request) =>
    pathOf(request) === '/anthropic/v1/messages'
      ? { model: String(request.body.model), stream: request.body.stream === true }
      : undefined,
  violations,
  streamType: 'text/event-stream; charset=utf-8',
  frame: (event) => sseFrame(JSON.stringify(event), String(event.type)),
  isEndSign: (event) => event.type === 'message_delta' || event.type === 'message_stop',
  errorBody: (status, message) => ({
    type: 'error',
    error: { type: errorTypes[status] ?? 'api_error', message },
    request_id: 'req_grid011CSHoEeqs',
  }),
  errorFrame: (message) =>
    sseFrame(JSON.stringify({ type: 'error', error: { type: 'overloaded_error', message } }), 'error'),
};

function violations({ body, headers }: SeenRequest): readonly string[] {
  const rules = new Violations();
  rules.expect(headers['x-api-key'] !== undefined, 'no x-api-key');
  rules.expect(headers['anthropic-version'] !== undefined, 'no anthropic-version');
  rules.only(body, known, 'body');
  rules.expect(
    Number.isInteger(body.max_tokens) && Number(body.max_tokens) > 0,
    'max_tokens: a whole number is required',
  );
  const thinking = asObject(body.thinking);
  if (thinking?.type === 'enabled') {
    rules.expect(
      Number(thinking.budget_tokens) >= 1024 && Number(thinking.budget_tokens) < Number(body.max_tokens),
      'thinking.budget_tokens: at least 1024 and less than max_tokens',
    );
    rules.expect(body.temperature === undefined || body.temperature === 1, 'temperature: 1 with thinking');
  }
  const messages = objectsOf(body.messages);
  rules.expect(messages[0]?.role === 'user', 'messages: the first is the user’s');
  let open = new Set<string>();
  for (const [at, message] of messages.entries()) {
    open = checkMessage(rules, message, `messages[${at}]`, open);
  }
  rules.expect(open.size === 0, `tool_use without tool_result: ${[...open].join(', ')}`);
  rules.expect(
    objectsOf(body.tools).every((tool) => typeof tool.name === 'string'),
    'tools: every tool has a name',
  );
  return rules.found;
}

/** Returns the calls that wait for results after this message. */
function checkMessage(rules: Violations, message: JsonObject, where: string, open: Set<string>): Set<string> {
  const { role } = message;
  rules.expect(role === 'user' || role === 'assistant', `${where}: role "${String(role)}"`);
  const blocks = objectsOf(message.content);
  rules.expect(message.content !== '' && !isEmptyList(message.content), `${where}: empty content`);
  const results = blocks.filter(({ type }) => type === 'tool_result');
  for (const { tool_use_id: id } of results) {
    rules.expect(open.delete(String(id)), `${where}: no tool_use "${String(id)}" in the message before`);
  }
  rules.expect(open.size === 0, `${where}: tool_use without tool_result: ${[...open].join(', ')}`);
  rules.expect(
    results.every((result) => blocks.indexOf(result) < results.length),
    `${where}: tool_result blocks come first`,
  );
  for (const block of blocks) checkBlock(rules, block, where);
  return new Set(blocks.filter(({ type }) => type === 'tool_use').map(({ id }) => String(id)));
}

function checkBlock(rules: Violations, block: JsonObject, where: string): void {
  const source = asObject(block.source);
  if (block.type === 'text') {
    rules.expect(typeof block.text === 'string' && block.text.trim() !== '', `${where}: an empty text block`);
  } else if (block.type === 'thinking') {
    rules.expect(
      typeof block.signature === 'string' && block.signature !== '',
      `${where}: thinking unsigned`,
    );
  } else if (block.type === 'tool_use') {
    rules.expect(asObject(block.input) !== undefined, `${where}: tool_use input is no object`);
  } else if (source?.type === 'base64') {
    rules.expect(
      isBase64(source.data) && typeof source.media_type === 'string',
      `${where}: base64 source without data or media_type`,
    );
  }
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}
