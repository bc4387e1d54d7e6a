import { cutTokens, countTokens, limitText, mockSentence, quote } from '../../answer-text.ts';
import { maxAnswerTokens, type Faults } from '../../fault-words.ts';
import type { NewId } from '../../new-id.ts';
import { sampleOf } from '../../sample/schema-sample.ts';
import type { ChatRequest } from './chat-request.ts';
import type { OfferedTool } from './tools.ts';

interface PlannedCall {
  readonly name: string;
  /** JSON, in tokens. */
  readonly argumentTokens: readonly string[];
}

/** A call of a function. */
export interface ToolCall extends PlannedCall {
  readonly id: string;
}

/** What one choice of an answer says. */
export interface Choice {
  readonly index: number;
  readonly kind: 'text' | 'refusal' | 'tools';
  readonly tokens: readonly string[];
  readonly calls: readonly ToolCall[];
  readonly finish: 'stop' | 'length' | 'tool_calls' | 'function_call';
}

/** Decides what every choice says. */
export function planChoices(request: ChatRequest, faults: Faults, newId: NewId): Choice[] {
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
    const { tokens, finish } = limitText(contentOf(request, index), limits);
    return { index, kind: 'text', tokens, calls: [], finish };
  });
}

/** The tokens that the choices used together. */
export function completionTokens(choices: readonly Choice[]): number {
  let count = 0;
  for (const choice of choices) {
    count += choice.tokens.length;
    for (const call of choice.calls) count += call.argumentTokens.length + countTokens(call.name);
  }
  return count;
}

/** The calls of every choice: those that the request wants, or as many as the fault `tool_calls` asks for. */
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
    const argumentTokens = cutTokens(JSON.stringify(sampleOf(parameters)));
    left -= argumentTokens.length + countTokens(name);
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
  const tokens = cutTokens('I cannot help with that: the mock provider was asked to refuse.');
  return { index, kind: 'refusal', tokens, calls: [], finish: 'stop' };
}

function contentOf(request: ChatRequest, index: number): string {
  const { format } = request;
  if (format.type === 'text') return mockSentence(request.saidBy, request.said, index);
  if (format.type === 'json_schema') return JSON.stringify(sampleOf(format.schema));
  return JSON.stringify({ provider: 'mock', said: quote(request.said), choice: index });
}
