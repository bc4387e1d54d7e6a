import { answerOf, type AnswerText, answerTexts, frameOf, type MockAnswer } from '../answer.ts';
import { fields, type JsonObject, type MockContext, type MockRequest } from '../request.ts';
import { isJsonObject } from '../../../core/base/json.ts';

interface Draft {
  readonly body: JsonObject;
  readonly model: string;
  readonly id: string;
  readonly messageId: string;
  readonly createdAt: number;
  readonly text: AnswerText;
  readonly usage: object | null;
}

/** POST /responses: answers in words, streamed or not. */
export function answerResponses(request: MockRequest, context: MockContext): MockAnswer {
  const { json: body, faults } = request;
  const model = fields.requiredModel(body);
  const { said, promptTokens } = readInput(body);
  const text = answerTexts.limit(answerTexts.sentence(said === '' ? 'none' : 'user', said, 0), {
    stop: [],
    maxTokens: fields.optionalInteger(body, 'max_output_tokens', 1, Number.MAX_SAFE_INTEGER),
    tokens: faults.tokens,
    shares: 1,
  });
  const draft: Draft = {
    body,
    model,
    id: context.newId('resp_'),
    messageId: context.newId('msg_'),
    createdAt: context.nowSeconds(),
    text,
    usage: faults.usage === 'none' ? null : usageOf(promptTokens, text.tokens.length),
  };
  if (!fields.optionalBoolean(body, 'stream', false)) return answerOf.json(finalResponse(draft));
  const failed = { type: 'error', code: 'server_error', param: null, sequence_number: 0 };
  return answerOf.stream(frames(draft, faults.chunk_tokens ?? 1), {
    closing: '',
    errorFrame: frameOf.named('error', { ...failed, message: 'The mock provider failed in mid-stream.' }),
  });
}

/** POST /responses/input_tokens: the input tokens of the same response, without its tools. */
export function countInputTokens({ json }: MockRequest): MockAnswer {
  const { promptTokens } = readInput(json);
  return answerOf.json({ object: 'response.input_tokens', input_tokens: promptTokens });
}

function readInput(body: JsonObject): { said: string; promptTokens: number } {
  const input = fields.member(body, 'input');
  if (input === undefined) throw fields.missing('input');
  const before = answerTexts.countTokens(fields.optionalText(body, 'instructions') ?? '');
  if (typeof input === 'string')
    return { said: input, promptTokens: before + answerTexts.countTokens(input) + 4 };
  if (!Array.isArray(input)) throw fields.wrongType('input', 'a string or an array', input);
  let said = '';
  let promptTokens = before;
  for (const [index, item] of (input as readonly unknown[]).entries()) {
    if (!isJsonObject(item)) throw fields.wrongType(`input[${index}]`, 'an object', item);
    const text = fields.textOfContent(item['content'] ?? item['output']);
    promptTokens += 4 + answerTexts.countTokens(text);
    if (item['role'] === 'user' || item['type'] === 'function_call_output') said = text;
  }
  return { said, promptTokens };
}

function usageOf(input: number, output: number): object {
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: input + output,
  };
}

function response(draft: Draft, changing: object): object {
  const { body } = draft;
  return {
    id: draft.id,
    object: 'response',
    created_at: draft.createdAt,
    status: 'in_progress',
    background: false,
    error: null,
    incomplete_details: null,
    instructions: fields.member(body, 'instructions') ?? null,
    max_output_tokens: fields.member(body, 'max_output_tokens') ?? null,
    model: draft.model,
    output: [],
    parallel_tool_calls: fields.member(body, 'parallel_tool_calls') ?? true,
    previous_response_id: fields.member(body, 'previous_response_id') ?? null,
    reasoning: { effort: null, summary: null },
    service_tier: 'default',
    store: fields.member(body, 'store') ?? true,
    temperature: fields.member(body, 'temperature') ?? 1,
    text: fields.member(body, 'text') ?? { format: { type: 'text' } },
    tool_choice: fields.member(body, 'tool_choice') ?? 'auto',
    tools: fields.member(body, 'tools') ?? [],
    top_p: fields.member(body, 'top_p') ?? 1,
    truncation: 'disabled',
    usage: null,
    user: fields.member(body, 'user') ?? null,
    metadata: fields.member(body, 'metadata') ?? {},
    ...changing,
  };
}

function finalResponse(draft: Draft): object {
  const cut = draft.text.finish === 'length';
  return response(draft, {
    status: cut ? 'incomplete' : 'completed',
    incomplete_details: cut ? { reason: 'max_output_tokens' } : null,
    output: [finalItem(draft)],
    usage: draft.usage,
  });
}

function finalItem(draft: Draft): object {
  const status = draft.text.finish === 'length' ? 'incomplete' : 'completed';
  return {
    id: draft.messageId,
    type: 'message',
    status,
    content: [textPart(draft.text.tokens.join(''))],
    role: 'assistant',
  };
}

function textPart(text: string): object {
  return { type: 'output_text', annotations: [], logprobs: [], text };
}

function* frames(draft: Draft, chunkTokens: number): Generator<string> {
  let number = 0;
  const event = (type: string, value: object) =>
    frameOf.named(type, { type, sequence_number: number++, ...value });
  const at = { item_id: draft.messageId, output_index: 0, content_index: 0 };
  const text = draft.text.tokens.join('');
  yield event('response.created', { response: response(draft, {}) });
  yield event('response.in_progress', { response: response(draft, {}) });
  const opened = {
    id: draft.messageId,
    type: 'message',
    status: 'in_progress',
    content: [],
    role: 'assistant',
  };
  yield event('response.output_item.added', { output_index: 0, item: opened });
  yield event('response.content_part.added', { ...at, part: textPart('') });
  for (const tokens of answerTexts.groupTokens(draft.text.tokens, chunkTokens)) {
    yield event('response.output_text.delta', { ...at, delta: tokens.join(''), logprobs: [] });
  }
  yield event('response.output_text.done', { ...at, text, logprobs: [] });
  yield event('response.content_part.done', { ...at, part: textPart(text) });
  yield event('response.output_item.done', { output_index: 0, item: finalItem(draft) });
  const last = draft.text.finish === 'length' ? 'response.incomplete' : 'response.completed';
  yield event(last, { response: finalResponse(draft) });
}
