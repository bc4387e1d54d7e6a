import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import type { DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type {
  ChatPart,
  JsonObject,
  ProviderToolPart,
  TextPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { parseExactObject } from '../exact-json.ts';
import { asArray, asObject, asText } from '../json-reading.ts';
import { answerExtras, decodeConverseUsage, fieldExtras, readFinish } from './read-answer-facts.ts';
import { readCitation } from './read-citation.ts';
import { AnswerTools, inputText, toolUseIdOf, toolUseName } from './read-tool-use.ts';

/** A complete answer of `Converse`. The wire has no id of its own; the model is the one that was asked for. */
export function decodeConverse(body: Buffer, context: DecodeContext): ChatAnswer {
  const answer = parseExactObject(body.toString('utf8'));
  const message = asObject(asObject(answer?.output)?.message);
  if (answer === undefined || message === undefined) {
    throw new GatewayError(
      'upstream_invalid',
      'The provider\'s answer is none of Bedrock Converse: it has no "output.message". Check the base URL of the provider.',
    );
  }
  const { parts, called, preamble } = readContent(asArray(message.content), context);
  const extras = answerExtras(answer, preamble);
  const more = fieldExtras(answer.additionalModelResponseFields, context.request);
  const tier = asText(asObject(answer.serviceTier)?.type);
  const usage = decodeConverseUsage(answer.usage);
  return {
    id: '',
    model: context.request.model,
    choices: [
      {
        index: 0,
        parts,
        finish: readFinish(answer.stopReason, called, answer.additionalModelResponseFields),
        ...(more === undefined ? {} : { extras: more }),
      },
    ],
    ...(usage === undefined ? {} : { usage }),
    ...(tier === undefined ? {} : { serviceTier: tier }),
    ...(extras === undefined ? {} : { extras: { 'bedrock-converse': extras } }),
  };
}

interface Content {
  readonly parts: ChatPart[];
  /** A call stands in it that the client must answer. */
  readonly called: boolean;
  /** What the model said before it answered through the tool: no part of the JSON that was asked for. */
  readonly preamble: string;
}

function readContent(blocks: readonly unknown[], context: DecodeContext): Content {
  const tools = new AnswerTools(context.request);
  const parts: ChatPart[] = [];
  const said = new Set<ChatPart>();
  let answered = false;
  for (const value of blocks) {
    const block = asObject(value);
    if (block === undefined) continue;
    const toolUse = asObject(block.toolUse);
    if (toolUse !== undefined && tools.kindOf(toolUse, toolUseName(toolUse)) === 'answer') {
      answered = true;
      parts.push({ type: 'text', text: inputText(toolUse.input, 'answer') });
      continue;
    }
    const part = readBlock(block, tools, context);
    if (part === undefined) continue;
    parts.push(part);
    if (part.type === 'text') said.add(part);
  }
  const called = parts.some(({ type }) => type === 'tool-call');
  if (!answered) return { parts, called, preamble: '' };
  const preamble = [...said].map((part) => ('text' in part ? part.text : '')).join('');
  return { parts: parts.filter((part) => !said.has(part)), called, preamble };
}

function readBlock(block: JsonObject, tools: AnswerTools, context: DecodeContext): ChatPart | undefined {
  const text = block.text;
  if (typeof text === 'string') return text === '' ? undefined : { type: 'text', text };
  const reasoning = asObject(block.reasoningContent);
  if (reasoning !== undefined) return readReasoning(reasoning);
  const toolUse = asObject(block.toolUse);
  if (toolUse !== undefined) return readToolUse(toolUse, tools, context);
  const toolResult = asObject(block.toolResult);
  if (toolResult !== undefined) return readToolResult(toolResult, context);
  const cited = asObject(block.citationsContent);
  if (cited !== undefined) return readCited(cited);
  const image = asObject(block.image);
  const bytes = asText(asObject(image?.source)?.bytes);
  if (image !== undefined && bytes !== undefined) return imagePart(asText(image.format), bytes);
  return { type: 'opaque', dialect: 'bedrock-converse', value: block };
}

/** A picture that the model made. */
export function imagePart(format: string | undefined, data: string): ChatPart {
  return { type: 'image', source: { kind: 'base64', mediaType: `image/${format ?? 'png'}`, data } };
}

function readReasoning(reasoning: JsonObject): ChatPart | undefined {
  const redacted = asText(reasoning.redactedContent) ?? asText(asObject(reasoning.redactedReasoning)?.data);
  if (redacted !== undefined) return { type: 'reasoning', text: '', redacted };
  const thought = asObject(reasoning.reasoningText);
  const text = asText(thought?.text) ?? '';
  const signature = asText(thought?.signature);
  if (signature !== undefined) return { type: 'reasoning', text, signature };
  return text === '' ? undefined : { type: 'reasoning', text };
}

function readToolUse(toolUse: JsonObject, tools: AnswerTools, context: DecodeContext): ChatPart {
  const name = toolUseName(toolUse);
  const kind = tools.kindOf(toolUse, name);
  const id = toolUseIdOf(toolUse, context);
  if (kind === 'provider') return providerTool('call', id, name, { toolUse });
  return {
    type: 'tool-call',
    id,
    name,
    kind: kind === 'custom' ? 'custom' : 'function',
    arguments: inputText(toolUse.input, kind),
  };
}

/** A result that stands in an answer is that of a tool which the provider ran. */
function readToolResult(toolResult: JsonObject, context: DecodeContext): ProviderToolPart {
  const name = (asText(toolResult.type) ?? '').replace(/_result$/, '');
  return providerTool('result', toolUseIdOf(toolResult, context), name, { toolResult });
}

/** A call or a result of a tool that the provider runs; `value` is the whole block. */
export function providerTool(
  phase: 'call' | 'result',
  id: string,
  name: string,
  value: JsonObject,
): ProviderToolPart {
  return { type: 'provider-tool', dialect: 'bedrock-converse', phase, id, name, value };
}

function readCited(cited: JsonObject): TextPart {
  const text = asArray(cited.content)
    .map((piece) => asText(asObject(piece)?.text) ?? '')
    .join('');
  const citations = asArray(cited.citations).flatMap((value) => {
    const citation = asObject(value);
    return citation === undefined ? [] : [readCitation(citation)];
  });
  return { type: 'text', text, ...(citations.length === 0 ? {} : { citations }) };
}
