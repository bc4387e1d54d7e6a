import type { ChatAnswer, ChatChoice, TokenLogprob } from '../../../core/dialects/canonical/chat-answer.ts';
import type { DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatPart, Citation } from '../../../core/dialects/canonical/chat-part.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { parseExactObject } from '../exact-json.ts';
import { asArray, asCount, asObject, asText, type JsonObject } from '../json-reading.ts';
import { decodeCitations, isOfText } from './citations.ts';
import { customInput, customNames } from './custom-tool.ts';
import { decodeFinish } from './finish-reason.ts';
import { decodeLogprob } from './logprobs.ts';
import { decodeUsage } from './usage.ts';

const known: ReadonlySet<string> = new Set(['id', 'message', 'finish_reason', 'usage', 'logprobs']);

interface Placed {
  readonly parts: readonly ChatPart[];
  readonly unplaced: readonly JsonObject[];
}

/** Reads a complete answer. Throws GatewayError `upstream_invalid` when it is none. */
export function decodeCohereAnswer(body: Buffer, context: DecodeContext): ChatAnswer {
  const json = parseExactObject(body.toString('utf8'));
  const message = asObject(json?.message);
  if (json === undefined || message === undefined) {
    throw new GatewayError(
      'upstream_invalid',
      'The provider answered with something that is no Cohere chat answer: an object with "message" was expected.',
    );
  }
  const { parts, unplaced } = placeCitations(
    [...planPart(message), ...contentParts(message.content), ...callParts(message, context)],
    asArray(message.citations),
  );
  const hasCalls = parts.some(({ type }) => type === 'tool-call');
  const usage = decodeUsage(json.usage);
  const extras = extrasOf(json, unplaced);
  const logprobs = logprobsOf(json.logprobs);
  const choice: ChatChoice = {
    index: 0,
    parts,
    finish: decodeFinish(asText(json.finish_reason) ?? '', hasCalls),
    ...(logprobs !== undefined && { logprobs }),
  };
  return {
    id: asText(json.id) ?? '',
    model: context.request.model,
    choices: [choice],
    ...(usage !== undefined && { usage }),
    ...(extras !== undefined && { extras: { 'cohere-v2': extras } }),
  };
}

/** The mark by which a plan is told from other reasoning when it comes back. */
export const planMark = { 'cohere-v2': { tool_plan: true } } as const;

/** Arguments as JSON text: tools without parameters get `null`, nothing, or an object. */
export function argumentsOf(value: unknown): string {
  if (typeof value === 'object' && value !== null) return JSON.stringify(value);
  const text = typeof value === 'string' ? value.trim() : '';
  return text === '' || text === 'null' ? '{}' : (value as string);
}

function planPart({ tool_plan: plan }: JsonObject): ChatPart[] {
  const text = asText(plan);
  return text === undefined ? [] : [{ type: 'reasoning', text, extras: planMark }];
}

function contentParts(content: unknown): ChatPart[] {
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }];
  return asArray(content).flatMap((one): ChatPart[] => {
    const block = asObject(one);
    if (block === undefined) return [];
    if (block.type === 'thinking' && typeof block.thinking === 'string')
      return [{ type: 'reasoning', text: block.thinking }];
    if (typeof block.text === 'string') return [{ type: 'text', text: block.text }];
    return [{ type: 'opaque', dialect: 'cohere-v2', value: block }];
  });
}

function callParts({ tool_calls: calls }: JsonObject, context: DecodeContext): ChatPart[] {
  const customs = customNames(context.request);
  return asArray(calls).flatMap((one): ChatPart[] => {
    const call = asObject(one);
    const called = asObject(call?.function);
    const name = asText(called?.name);
    if (call === undefined || called === undefined || name === undefined) return [];
    const id = asText(call.id) ?? context.newId('call_');
    const given = argumentsOf(called.arguments);
    return [
      customs.has(name)
        ? { type: 'tool-call', kind: 'custom', id, name, arguments: customInput(given) }
        : { type: 'tool-call', kind: 'function', id, name, arguments: given },
    ];
  });
}

/** Puts citations on the texts that they stand on; `unplaced` are those that stand on no text. */
function placeCitations(parts: readonly ChatPart[], citations: readonly unknown[]): Placed {
  const content = parts.filter(({ type, extras }) => type !== 'tool-call' && extras !== planMark);
  const firstText = content.find(({ type }) => type === 'text');
  const unplaced: JsonObject[] = [];
  const placed = new Map<ChatPart, Citation[]>();
  for (const one of citations) {
    const citation = asObject(one);
    if (citation === undefined) continue;
    const index = asCount(citation.content_index);
    const part = index === undefined ? firstText : content[index];
    if (part?.type !== 'text' || !isOfText(citation)) unplaced.push(citation);
    else placed.set(part, [...(placed.get(part) ?? []), ...decodeCitations(citation, part.text)]);
  }
  const cited = parts.map((part) => {
    const citations = placed.get(part);
    return citations === undefined || part.type !== 'text' ? part : { ...part, citations };
  });
  return { parts: cited, unplaced };
}

function logprobsOf(value: unknown): readonly TokenLogprob[] | undefined {
  const items = asArray(value).flatMap((one) => decodeLogprob(one) ?? []);
  return items.length === 0 ? undefined : items;
}

/** What only Cohere says: the billed units, citations of thoughts, and members that are not known. */
function extrasOf(json: JsonObject, unplaced: readonly JsonObject[]): JsonObject | undefined {
  const extras = Object.fromEntries(Object.entries(json).filter(([name]) => !known.has(name)));
  const billed = asObject(json.usage)?.billed_units;
  if (billed !== undefined) extras.billed_units = billed;
  if (unplaced.length > 0) extras.citations = unplaced;
  return Object.keys(extras).length === 0 ? undefined : extras;
}
