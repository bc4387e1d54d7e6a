import { asObject, type JsonObject, objectsOf } from '../../../adapters/dialects/json-reading.ts';
import { pathOf, sseFrame, type FakeWire, type SeenRequest } from './fake-wire.ts';
import { isJsonObjectText, Violations } from './violations.ts';

const known = new Set(
  (
    'model messages stream stream_options tools tool_choice parallel_tool_calls temperature top_p n stop seed user ' +
    'max_tokens max_completion_tokens frequency_penalty presence_penalty logit_bias logprobs top_logprobs ' +
    'response_format reasoning_effort verbosity metadata store service_tier modalities audio prediction ' +
    'functions function_call safety_identifier prompt_cache_key prompt_cache_retention web_search_options'
  ).split(' '),
);
const partTypes = new Set(['text', 'image_url', 'input_audio', 'file', 'refusal']);

/** `POST /openai/v1/chat/completions` as OpenAI serves it. */
export const fakeOpenAiChat: FakeWire = {
  dialect: 'openai-chat',
  asked: (request) =>
    pathOf(request) === '/openai/v1/chat/completions'
      ? { model: String(request.body.model), stream: request.body.stream === true }
      : undefined,
  violations,
  streamType: 'text/event-stream; charset=utf-8',
  frame: (event) => sseFrame(JSON.stringify(event)),
  wanted: (event, { body }) =>
    !(Array.isArray(event.choices) && event.choices.length === 0) ||
    asObject(body.stream_options)?.include_usage === true,
  isEndSign: (event) => objectsOf(event.choices)[0]?.finish_reason != null,
  ending: sseFrame('[DONE]'),
  errorBody: (status, message) => ({
    error: { message, type: errorType(status), param: null, code: status === 401 ? 'invalid_api_key' : null },
  }),
  errorFrame: (message) =>
    sseFrame(JSON.stringify({ error: { message, type: 'server_error', param: null, code: null } })),
};

function errorType(status: number): string {
  if (status === 429) return 'rate_limit_error';
  return status >= 500 ? 'server_error' : 'invalid_request_error';
}

function violations({ body, headers }: SeenRequest): readonly string[] {
  const rules = new Violations();
  rules.expect(headers.authorization?.startsWith('Bearer ') === true, 'no bearer credential');
  rules.only(body, known, 'body');
  rules.expect(
    body.stream_options === undefined || body.stream === true,
    'stream_options are only for streams',
  );
  const messages = objectsOf(body.messages);
  rules.expect(messages.length > 0, 'messages: empty');
  let open = new Set<string>();
  for (const [at, message] of messages.entries()) {
    open = checkMessage(rules, message, `messages[${at}]`, open);
  }
  rules.expect(open.size === 0, `tool calls without a result: ${[...open].join(', ')}`);
  for (const [at, tool] of objectsOf(body.tools).entries()) {
    const definition = asObject(tool.function) ?? asObject(tool.custom);
    rules.expect(typeof definition?.name === 'string', `tools[${at}]: no name`);
  }
  return rules.found;
}

/** Returns the calls that wait for results after this message. */
function checkMessage(rules: Violations, message: JsonObject, where: string, open: Set<string>): Set<string> {
  for (const part of objectsOf(message.content)) {
    rules.expect(partTypes.has(String(part.type)), `${where}: unknown content part "${String(part.type)}"`);
  }
  if (message.role === 'tool') {
    const id = String(message.tool_call_id);
    rules.expect(open.delete(id), `${where}: no call "${id}" stands before this result`);
    return open;
  }
  rules.expect(open.size === 0, `${where}: calls wait for results: ${[...open].join(', ')}`);
  const calls = objectsOf(message.tool_calls);
  for (const call of calls) {
    rules.expect(
      isJsonObjectText(asObject(call.function)?.arguments),
      `${where}: arguments of "${String(call.id)}" are no JSON object`,
    );
  }
  rules.expect(
    message.role !== 'assistant' || calls.length > 0 || message.content != null || message.refusal != null,
    `${where}: an assistant message without content`,
  );
  return new Set(calls.map(({ id }) => String(id)));
}
