import type {
  ChatPart,
  ProviderToolPart,
  ReasoningPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import { stringifyExact } from '../exact-json.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { decodeCitation } from './citations.ts';
import { decodeDocument, decodeImage, decodeSearchResult } from './media.ts';
import { commonOf, dialectName } from './own-dialect.ts';

const textMembers = new Set(['type', 'text', 'citations']);
const callMembers = new Set(['type', 'id', 'name', 'input', 'extra_content']);
const resultMembers = new Set(['type', 'tool_use_id', 'content', 'is_error']);
const resultMembersButContent = new Set(['type', 'tool_use_id', 'is_error']);
const thinkingMembers = new Set(['type', 'thinking', 'signature']);
const redactedMembers = new Set(['type', 'data']);

/** A content block of a request or of an answer. What only this wire understands becomes an opaque part. */
export function decodeBlock(block: JsonObject): ChatPart {
  switch (block.type) {
    case 'text':
      return decodeText(block);
    case 'image':
      return decodeImage(block) ?? opaque(block);
    case 'document':
      return decodeDocument(block) ?? opaque(block);
    case 'search_result':
      return decodeSearchResult(block) ?? opaque(block);
    case 'tool_use':
      return decodeToolUse(block);
    case 'tool_result':
      return decodeToolResult(block);
    case 'thinking':
      return decodeThinking(block);
    case 'redacted_thinking':
      return {
        type: 'reasoning',
        text: '',
        redacted: asText(block.data) ?? '',
        ...commonOf(block, redactedMembers),
      };
    default:
      return providerTool(block) ?? opaque(block);
  }
}

/** A tool that Anthropic runs, or its result; undefined for other blocks. */
export function providerTool(block: JsonObject): ProviderToolPart | undefined {
  const type = asText(block.type) ?? '';
  const common = { type: 'provider-tool', dialect: dialectName, value: block } as const;
  if (type === 'server_tool_use' || type === 'mcp_tool_use') {
    return { ...common, phase: 'call', id: asText(block.id) ?? '', name: asText(block.name) ?? '' };
  }
  if (!type.endsWith('_tool_result')) return undefined;
  const name = type.slice(0, -'_tool_result'.length);
  return { ...common, phase: 'result', id: asText(block.tool_use_id) ?? '', name };
}

function opaque(block: JsonObject): ChatPart {
  return { type: 'opaque', dialect: dialectName, value: block };
}

function decodeText(block: JsonObject): TextPart {
  const citations = asArray(block.citations).flatMap<JsonObject>((value) => asObject(value) ?? []);
  return {
    type: 'text',
    text: typeof block.text === 'string' ? block.text : '',
    ...(citations.length === 0 ? {} : { citations: citations.map(decodeCitation) }),
    ...commonOf(block, textMembers),
  };
}

/** A call that the client must answer, its input as JSON text. */
export function decodeToolUse(block: JsonObject): ToolCallPart {
  const signature = thoughtSignature(block);
  return {
    type: 'tool-call',
    kind: 'function',
    id: asText(block.id) ?? '',
    name: asText(block.name) ?? '',
    arguments: stringifyExact(asObject(block.input) ?? {}),
    ...(signature === undefined ? {} : { signature }),
    // That the model itself called is how it always is; a program of the model's as caller is worth keeping.
    ...commonOf(asObject(block.caller)?.type === 'direct' ? { ...block, caller: null } : block, callMembers),
  };
}

/** Where the writer of this wire's answers put the signature that Gemini wants back with a call. */
function thoughtSignature(block: JsonObject): string | undefined {
  return asText(asObject(asObject(block.extra_content)?.google)?.thought_signature);
}

function decodeThinking(block: JsonObject): ReasoningPart {
  const signature = asText(block.signature);
  return {
    type: 'reasoning',
    text: typeof block.thinking === 'string' ? block.thinking : '',
    ...(signature === undefined ? {} : { signature }),
    ...commonOf(block, thinkingMembers),
  };
}

function decodeToolResult(block: JsonObject): ToolResultPart {
  const blocks = contentBlocks(block.content);
  const content: ToolResultPart['content'][number][] = [];
  let isWhole = true;
  for (const inner of blocks) {
    const part = decodeBlock(inner);
    if (part.type === 'text' || part.type === 'image' || part.type === 'file') content.push(part);
    else isWhole = false;
  }
  // What the canonical form cannot hold (tool references) is kept in the block's own words.
  const common = commonOf(block, isWhole ? resultMembers : resultMembersButContent);
  return {
    type: 'tool-result',
    kind: 'function',
    callId: asText(block.tool_use_id) ?? '',
    content,
    ...(typeof block.is_error === 'boolean' ? { isError: block.is_error } : {}),
    ...common,
  };
}

/** Content as blocks, whichever of its two forms it has. */
export function contentBlocks(content: unknown): readonly JsonObject[] {
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }];
  return asArray(content).flatMap<JsonObject>((value) =>
    typeof value === 'string' ? [{ type: 'text', text: value }] : (asObject(value) ?? []),
  );
}
