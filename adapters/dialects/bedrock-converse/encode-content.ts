import type {
  ChatPart,
  JsonObject,
  ReasoningPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import { reportForeignExtras, type EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import { parseExactObject } from '../exact-json.ts';
import { asObject } from '../json-reading.ts';
import { isOpenAiSignature } from '../openai-signature.ts';
import { hasPromptCache, type BedrockModel } from './bedrock-model.ts';
import { fileBlock, mediaBlock, type DocumentNames } from './media-blocks.ts';
import { toolUseId } from './tool-ids.ts';

/** What encoding the parts of one request shares. */
export interface ContentContext {
  readonly model: BedrockModel;
  readonly names: DocumentNames;
  readonly report: EncodeReport;
}

const dialect = 'bedrock-converse';
/** The member of a part's own extras that is said as a block around it. */
const guardMember = 'guardContent';

/** Adds the blocks of a part, and a cache point where it is marked. `place` is its name for the report (`messages[0].content[1]`). */
export function addPart(blocks: JsonObject[], part: ChatPart, place: string, context: ContentContext): void {
  const { report } = context;
  reportForeignExtras(part.extras, [dialect], report, `${place}.`);
  for (const name of Object.keys(part.extras?.[dialect] ?? {})) {
    if (name !== guardMember) report.drop(`${place}.${name}`);
  }
  // Only thinking is signed here; what Gemini signs has no place.
  if (part.signature !== undefined && part.type !== 'reasoning')
    report.drop(`${place}.extra_content.google.thought_signature`);
  const block = encodePart(part, place, context);
  if (block !== undefined) blocks.push(block);
  if (part.cache === undefined) return;
  // Behind nothing, or behind thinking, there is nothing that could be cached.
  if (block === undefined || part.type === 'reasoning') report.drop(`${place}.cache_control`);
  else addCachePoint(blocks, part.cache, place, context);
}

/** A cache point, where the model has a prompt cache; a lifetime that the API does not know becomes its default. */
export function addCachePoint(
  blocks: JsonObject[],
  marker: { readonly ttl?: string },
  place: string,
  { model, report }: ContentContext,
): void {
  if (!hasPromptCache(model)) return report.drop(`${place}.cache_control`);
  const cachePoint: JsonObject = { type: 'default' };
  if (marker.ttl === '5m' || marker.ttl === '1h') cachePoint.ttl = marker.ttl;
  else if (marker.ttl !== undefined) report.drop(`${place}.cache_control.ttl`);
  blocks.push({ cachePoint });
}

function encodePart(part: ChatPart, place: string, context: ContentContext): JsonObject | undefined {
  const { report } = context;
  switch (part.type) {
    case 'text':
      return encodeText(part, place, report);
    case 'refusal':
      report.emulate(`${place}.refusal`);
      return textBlock(part.text);
    case 'image': {
      if (part.detail !== undefined && part.detail !== 'auto')
        report.drop(`${place}.${part.type}_url.detail`);
      const block = mediaBlock('image', part.source);
      return guarded(part, block) ?? dropped(report, place);
    }
    case 'audio':
      return encodeAudio(part, place, context);
    case 'file':
      return fileBlock(part, context.names) ?? dropped(report, place);
    case 'tool-call':
      return encodeToolCall(part, place, context);
    case 'tool-result':
      return encodeToolResult(part, place, context);
    case 'reasoning':
      return encodeReasoning(part, place, context);
    case 'provider-tool':
    case 'opaque':
      return part.dialect === dialect ? part.value : dropped(report, place);
  }
}

function dropped(report: EncodeReport, place: string): undefined {
  report.drop(place);
  return undefined;
}

/** The API refuses text that is blank. */
function textBlock(text: string): JsonObject | undefined {
  return text.trim() === '' ? undefined : { text };
}

function encodeText(part: TextPart, place: string, report: EncodeReport): JsonObject | undefined {
  const block = textBlock(part.text);
  if (block === undefined) return undefined;
  const { citations } = part;
  if (citations === undefined || citations.length === 0) return guarded(part, block);
  const own = citations.flatMap(({ raw }) => (raw?.dialect === dialect ? [raw.value] : []));
  if (own.length === citations.length) return { citationsContent: { content: [block], citations: own } };
  report.drop(`${place}.citations`);
  return block;
}

/** A text or picture that the part's own extras mark as `guardContent` is what a guardrail judges. */
function guarded(part: ChatPart, block: JsonObject | undefined): JsonObject | undefined {
  const wish = part.extras?.[dialect]?.[guardMember];
  if (block === undefined || wish === undefined || wish === false) return block;
  if (part.type !== 'text') return { guardContent: block };
  const qualifiers = asObject(wish)?.qualifiers;
  return { guardContent: { text: qualifiers === undefined ? block : { ...block, qualifiers } } };
}

function encodeAudio(
  part: Extract<ChatPart, { type: 'audio' }>,
  place: string,
  { report }: ContentContext,
): JsonObject | undefined {
  const block = mediaBlock('audio', part.source);
  if (block !== undefined) return block;
  if (part.transcript === undefined || part.transcript === '') return dropped(report, place);
  report.emulate(place);
  return textBlock(part.transcript);
}

function encodeToolCall(part: ToolCallPart, place: string, context: ContentContext): JsonObject {
  return {
    toolUse: {
      toolUseId: toolUseId(part.id, context.model.vendor),
      name: part.name,
      input: toolInput(part, place, context.report),
    },
  };
}

function toolInput(part: ToolCallPart, place: string, report: EncodeReport): JsonObject {
  if (part.kind === 'custom') return { input: part.arguments };
  if (part.arguments.trim() === '') return {};
  const input = parseExactObject(part.arguments);
  if (input !== undefined) return input;
  // The API takes nothing but an object; the model shall still see what it wrote.
  report.emulate(`${place}.function.arguments`);
  return { arguments: part.arguments };
}

function encodeToolResult(part: ToolResultPart, place: string, context: ContentContext): JsonObject {
  const content: JsonObject[] = [];
  part.content.forEach((piece, at) => {
    const inside = `${place}.content[${at}]`;
    const block = encodePart(piece, inside, context);
    if (block !== undefined) content.push('citationsContent' in block ? { text: textOf(piece) } : block);
    if (piece.cache !== undefined) context.report.drop(`${inside}.cache_control`);
  });
  const toolResult: JsonObject = { toolUseId: toolUseId(part.callId, context.model.vendor), content };
  if (part.isError === true) {
    if (hasResultStatus(context.model)) toolResult.status = 'error';
    else context.report.drop(`${place}.is_error`);
  }
  return { toolResult };
}

function textOf(part: ChatPart): string {
  return 'text' in part ? part.text : '';
}

/** "This field is only supported by Amazon Nova and Anthropic Claude models." Undecided ids are trusted. */
function hasResultStatus({ vendor }: BedrockModel): boolean {
  return vendor === '' || vendor === 'anthropic' || vendor === 'amazon';
}

function encodeReasoning(
  part: ReasoningPart,
  place: string,
  { model, report }: ContentContext,
): JsonObject | undefined {
  if (part.redacted !== undefined) return { reasoningContent: { redactedContent: part.redacted } };
  // No model here can read it.
  if (part.signature !== undefined && isOpenAiSignature(part.signature)) return dropped(report, place);
  if (part.signature === undefined || part.signature === '') {
    // Claude refuses thinking whose signature is missing; the others have none.
    if (model.vendor === 'anthropic' || model.vendor === '' || part.text === '')
      return dropped(report, place);
    return { reasoningContent: { reasoningText: { text: part.text } } };
  }
  return { reasoningContent: { reasoningText: { text: part.text, signature: part.signature } } };
}
