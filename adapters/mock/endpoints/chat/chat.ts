import {
  answerOf,
  answerTexts,
  errorOf,
  frameOf,
  maxAnswerTokens,
  type MockAnswer,
  MockProblem,
} from '../../answer.ts';
import type { MockContext, MockRequest, Faults } from '../../request.ts';
import { type ChatRequest, type OfferedTool, readChatRequest } from './chat-request.ts';
import type { NewId } from '../../stores.ts';
import { sampleOf } from '../../sample/schema-sample.ts';

/** Members shared by every chunk and the whole answer. */
interface Envelope {
  readonly id: string;
  readonly created: number;
  readonly model: string;
}

const fingerprint = { service_tier: 'default', system_fingerprint: 'fp_mock000001' };
const midStream = new MockProblem(500, 'The mock provider failed in mid-stream, as it was asked to.');

/** End and error frames of OpenAI's chunk streams. */
export const chunkEnding = {
  closing: 'data: [DONE]\n\n',
  errorFrame: frameOf.data(errorOf.openai(midStream)),
} as const;

/** POST /chat/completions. */
export function answerChat(request: MockRequest, context: MockContext): MockAnswer {
  const chat = readChatRequest(request.json);
  const choices = planChoices(chat, request.faults, context.newId);
  const usage = chatUsage(chat.promptTokens, completionTokens(choices), request.faults);
  const envelope = {
    id: context.newId('chatcmpl-'),
    created: context.nowSeconds(),
    model: chat.model,
  };
  if (!chat.stream) return answerOf.json(whole(envelope, chat, choices, usage));
  const steps = interleaved(choices.map((choice) => choiceSteps(choice, chat, request.faults.chunk_tokens)));
  return answerOf.stream(frames(envelope, chat, steps, usage), chunkEnding);
}

function whole(
  envelope: Envelope,
  chat: ChatRequest,
  choices: readonly Choice[],
  usage: object | undefined,
): object {
  return {
    id: envelope.id,
    object: 'chat.completion',
    created: envelope.created,
    model: envelope.model,
    choices: choices.map((choice) => ({
      index: choice.index,
      message: messageOf(choice, chat.tools.legacy),
      logprobs: choiceLogprobs(choice.kind, choice.tokens, chat.topLogprobs),
      finish_reason: choice.finish,
    })),
    ...(usage === undefined ? {} : { usage }),
    ...fingerprint,
  };
}

function messageOf(choice: Choice, legacy: boolean): object {
  const base = { role: 'assistant', content: null, refusal: null, annotations: [] };
  if (choice.kind === 'text') return { ...base, content: choice.tokens.join('') };
  if (choice.kind === 'refusal') return { ...base, refusal: choice.tokens.join('') };
  const calls = choice.calls.map((call) => ({
    id: call.id,
    type: 'function',
    function: { name: call.name, arguments: call.argumentTokens.join('') },
  }));
  return legacy ? { ...base, function_call: calls[0]?.function } : { ...base, tool_calls: calls };
}

function* frames(
  envelope: Envelope,
  chat: ChatRequest,
  steps: Iterable<ChoiceStep>,
  usage: object | undefined,
): Generator<string> {
  const base = {
    id: envelope.id,
    object: 'chat.completion.chunk',
    created: envelope.created,
    model: envelope.model,
    ...fingerprint,
  };
  const withUsage = chat.includeUsage && usage !== undefined;
  for (const step of steps) {
    yield frameOf.data(withUsage ? { ...base, choices: [step], usage: null } : { ...base, choices: [step] });
  }
  if (withUsage) yield frameOf.data({ ...base, choices: [], usage });
}

/** One step of each in turn, until all are exhausted. */
function* interleaved(sources: readonly Iterator<ChoiceStep, void>[]): Generator<ChoiceStep> {
  let left = [...sources];
  while (left.length > 0) {
    const still: Iterator<ChoiceStep, void>[] = [];
    for (const source of left) {
      const next = source.next();
      if (next.done === true) continue;
      yield next.value;
      still.push(source);
    }
    left = still;
  }
}

interface PlannedCall {
  readonly name: string;
  /** JSON, in tokens. */
  readonly argumentTokens: readonly string[];
}

/** A call of a function. */
interface ToolCall extends PlannedCall {
  readonly id: string;
}

/** Content of one choice of an answer. */
interface Choice {
  readonly index: number;
  readonly kind: 'text' | 'refusal' | 'tools';
  readonly tokens: readonly string[];
  readonly calls: readonly ToolCall[];
  readonly finish: 'stop' | 'length' | 'tool_calls' | 'function_call';
}

/** Plans the content of every choice. */
function planChoices(request: ChatRequest, faults: Faults, newId: NewId): Choice[] {
  const calls = plannedCalls(request, faults);
  return Array.from({ length: request.n }, (_, index) => {
    if (calls.length > 0) return toolChoice(index, request, calls, newId);
    if (faults.refusal === true) return refusal(index);
    const entries = 1 + (request.topLogprobs ?? 0);
    const limits = {
      stop: request.stop,
      maxTokens: Math.min(request.maxTokens ?? Infinity, Math.floor(maxAnswerTokens / entries / request.n)),
      tokens: request.format.type === 'text' ? faults.tokens : undefined,
      shares: request.n,
    };
    const { tokens, finish } = answerTexts.limit(contentOf(request, index), limits);
    return { index, kind: 'text', tokens, calls: [], finish };
  });
}

/** The tokens that the choices used together. */
function completionTokens(choices: readonly Choice[]): number {
  let count = 0;
  for (const choice of choices) {
    count += choice.tokens.length;
    for (const call of choice.calls) count += call.argumentTokens.length + answerTexts.countTokens(call.name);
  }
  return count;
}

/** The calls of every choice: the requested ones, or as many as the fault `tool_calls` sets. */
function plannedCalls(request: ChatRequest, faults: Faults): PlannedCall[] {
  const { called, offered, forbidden, parallel } = request.tools;
  let tools = called;
  if (faults.tool_calls !== undefined && !forbidden) {
    const candidates = called.length > 0 ? called : offered;
    const count = parallel ? faults.tool_calls : 1;
    tools = Array.from({ length: count }, (_, index) => candidates[index % candidates.length] as OfferedTool);
  }
  const calls: PlannedCall[] = [];
  let left = Math.floor(maxAnswerTokens / request.n);
  for (const { name, parameters } of tools) {
    const argumentTokens = answerTexts.cutTokens(JSON.stringify(sampleOf(parameters)));
    left -= argumentTokens.length + answerTexts.countTokens(name);
    if (left >= 0) calls.push({ name, argumentTokens });
    else if (calls.length === 0) return [{ name, argumentTokens: ['{}'] }];
  }
  return calls;
}

function toolChoice(
  index: number,
  request: ChatRequest,
  planned: readonly PlannedCall[],
  newId: NewId,
): Choice {
  const calls = planned.map((call) => ({ id: newId('call_'), ...call }));
  const finish = request.tools.legacy ? 'function_call' : 'tool_calls';
  return { index, kind: 'tools', tokens: [], calls, finish };
}

function refusal(index: number): Choice {
  const tokens = answerTexts.cutTokens('I cannot help with that: the mock provider was asked to refuse.');
  return { index, kind: 'refusal', tokens, calls: [], finish: 'stop' };
}

function contentOf(request: ChatRequest, index: number): string {
  const { format } = request;
  if (format.type === 'text') return answerTexts.sentence(request.saidBy, request.said, index);
  if (format.type === 'json_schema') return JSON.stringify(sampleOf(format.schema));
  return JSON.stringify({ provider: 'mock', said: answerTexts.quote(request.said), choice: index });
}

/** The `choices` entry of one chunk. */
interface ChoiceStep {
  readonly index: number;
  readonly delta: object;
  readonly logprobs: object | null;
  readonly finish_reason: string | null;
}

/** A choice in streaming order: the role, the content or the arguments piece by piece, the finish. */
function* choiceSteps(
  choice: Choice,
  chat: ChatRequest,
  chunkTokens: number | undefined,
): Generator<ChoiceStep, void> {
  const size = chunkTokens ?? 1;
  const step = (delta: object, logprobs: object | null = null): ChoiceStep => ({
    index: choice.index,
    delta,
    logprobs,
    finish_reason: null,
  });
  const content = choice.kind === 'text' ? '' : null;
  yield step({ role: 'assistant', content, refusal: null });
  for (const tokens of answerTexts.groupTokens(choice.tokens, size)) {
    const text = tokens.join('');
    const delta = choice.kind === 'refusal' ? { refusal: text } : { content: text };
    yield step(delta, choiceLogprobs(choice.kind, tokens, chat.topLogprobs));
  }
  for (const [index, call] of choice.calls.entries()) {
    for (const delta of callDeltas(call, index, size, chat.tools.legacy)) yield step(delta);
  }
  yield { ...step({}), finish_reason: choice.finish };
}

function* callDeltas(call: ToolCall, index: number, size: number, legacy: boolean): Generator<object> {
  if (legacy) yield { function_call: { name: call.name, arguments: '' } };
  else {
    const opened = { name: call.name, arguments: '' };
    yield { tool_calls: [{ index, id: call.id, type: 'function', function: opened }] };
  }
  for (const tokens of answerTexts.groupTokens(call.argumentTokens, size)) {
    const piece = { arguments: tokens.join('') };
    yield legacy ? { function_call: piece } : { tool_calls: [{ index, function: piece }] };
  }
}

interface TokenLogprob {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[];
}

/** The `logprobs` of a choice, or null when none are requested (`top` is undefined). */
function choiceLogprobs(
  kind: 'text' | 'refusal' | 'tools',
  tokens: readonly string[],
  top: number | undefined,
): object | null {
  if (top === undefined) return null;
  const entries = logprobsOf(tokens, top);
  return kind === 'refusal' ? { content: null, refusal: entries } : { content: entries, refusal: null };
}

/** Log probabilities of tokens, invented but constant per token; `top` alternatives each. */
function logprobsOf(tokens: readonly string[], top: number): object[] {
  return tokens.map((token) => {
    const logprob = logprobOf(token);
    const alternatives: TokenLogprob[] = [];
    for (let i = 0; i < top; i++) {
      alternatives.push(entry(i === 0 ? token : `${token}${i}`, i === 0 ? logprob : logprob - i));
    }
    return { ...entry(token, logprob), top_logprobs: alternatives };
  });
}

/** The log probability of one token. */
export function logprobOf(token: string): number {
  return -((weight(token) % 1000) + 1) / 10_000;
}

function entry(token: string, logprob: number): TokenLogprob {
  return { token, logprob, bytes: [...Buffer.from(token)] };
}

function weight(token: string): number {
  let sum = 7;
  for (let i = 0; i < token.length; i++) sum = (sum * 31 + token.charCodeAt(i)) % 1_000_003;
  return sum;
}

/** Usage in the form of OpenAI's chat; undefined with the fault `usage=none`. */
function chatUsage(prompt: number, completion: number, faults: Faults): object | undefined {
  if (faults.usage === 'none') return undefined;
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
    completion_tokens_details: {
      reasoning_tokens: 0,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  };
}
