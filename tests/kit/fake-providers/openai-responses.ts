import { asObject, type JsonObject, objectsOf } from '../../../adapters/dialects/json-reading.ts';
import { pathOf, sseFrame, type FakeWire, type SeenRequest } from './fake-wire.ts';
import { isJsonObjectText, Violations } from './violations.ts';

const known = new Set(
  (
    'model input instructions stream stream_options tools tool_choice parallel_tool_calls temperature top_p user ' +
    'max_output_tokens max_tool_calls text reasoning metadata store service_tier include previous_response_id ' +
    'truncation top_logprobs background conversation prompt safety_identifier prompt_cache_key prompt_cache_retention'
  ).split(' '),
);
const parts: Readonly<Record<string, ReadonlySet<string>>> = {
  assistant: new Set(['output_text', 'refusal']),
  user: new Set(['input_text', 'input_image', 'input_file', 'input_audio']),
  system: new Set(['input_text']),
  developer: new Set(['input_text']),
};
const endings = new Set(['response.completed', 'response.incomplete', 'response.failed']);

/** `POST /openai/v1/responses` as OpenAI serves it. */
export const fakeOpenAiResponses: FakeWire = {
  dialect: 'openai-responses',
  asked: (request) =>
    pathOf(request) === '/openai/v1/responses'
      ? { model: String(request.body.model), stream: request.body.stream === true }
      : undefined,
  violations,
  streamType: 'text/event-stream; charset=utf-8',
  frame: (event) => sseFrame(JSON.stringify(event), String(event.type)),
  isEndSign: (event) => endings.has(String(event.type)),
  errorBody: (status, message) => ({
    error: {
      message,
      type: status >= 500 ? 'server_error' : 'invalid_request_error',
      param: null,
      code: status === 429 ? 'rate_limit_exceeded' : null,
    },
  }),
  errorFrame: (message) =>
    sseFrame(
      JSON.stringify({ type: 'error', sequence_number: 9, code: 'server_error', message, param: null }),
      'error',
    ),
};

function violations({ body, headers }: SeenRequest): readonly string[] {
  const rules = new Violations();
  rules.expect(headers.authorization?.startsWith('Bearer ') === true, 'no bearer credential');
  rules.only(body, known, 'body');
  const calls = new Set<string>();
  for (const [at, item] of objectsOf(body.input).entries()) checkItem(rules, item, `input[${at}]`, calls);
  rules.expect(calls.size === 0, `tool calls without a result: ${[...calls].join(', ')}`);
  for (const [at, tool] of objectsOf(body.tools).entries()) {
    rules.expect(
      tool.type !== 'function' || typeof tool.name === 'string',
      `tools[${at}]: a function without a name (the wire has it at the top level)`,
    );
  }
  const format = asObject(asObject(body.text)?.format);
  rules.expect(
    format?.type !== 'json_schema' || (format.schema !== undefined && typeof format.name === 'string'),
    'text.format: name and schema are required',
  );
  return rules.found;
}

function checkItem(rules: Violations, item: JsonObject, where: string, calls: Set<string>): void {
  const id = String(item.call_id);
  if (item.type === 'function_call') {
    rules.expect(isJsonObjectText(item.arguments), `${where}: arguments are no JSON object`);
    calls.add(id);
  } else if (item.type === 'function_call_output') {
    rules.expect(calls.delete(id), `${where}: no call "${id}" stands before this result`);
  } else if (item.type === undefined || item.type === 'message') {
    const allowed = parts[String(item.role)];
    rules.expect(allowed !== undefined, `${where}: unknown role "${String(item.role)}"`);
    for (const part of objectsOf(item.content)) {
      rules.expect(
        allowed?.has(String(part.type)) === true,
        `${where}: "${String(part.type)}" in a ${String(item.role)} message`,
      );
    }
  } else if (item.type === 'reasoning') {
    rules.expect(Array.isArray(item.summary), `${where}: a reasoning item without its summary`);
  }
}
