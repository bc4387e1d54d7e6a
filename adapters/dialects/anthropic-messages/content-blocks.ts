import type {
  CacheMarker,
  ChatPart,
  Citation,
  Extras,
  FilePart,
  ImagePart,
  MediaSource,
  ProviderToolPart,
  ReasoningPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import { asArray, asCount, asObject, asText, type JsonObject, stringifyExact } from '../json-reading.ts';
import type { DialectName } from '../../../core/dialects/endpoint.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';

/** Citations, to and from the standard form. */
export const blockCitation = { decode: decodeCitation, encode: encodeCitation };

/** Content blocks, to and from parts of the standard form. */
export const contentBlock = {
  common: commonOf,
  addCommon,
  ownExtras,
  decode: decodeBlock,
  list: contentBlocks,
  encodeText,
  encodeToolUse,
};

const imageMembers = new Set(['type', 'source']);
const documentMembers = new Set(['type', 'source', 'title', 'context', 'citations']);
const documentMembersButSource = new Set(['type', 'title', 'context', 'citations']);

/** An image block; undefined when its source is of an unknown kind. */
function decodeImage(block: JsonObject): ImagePart | undefined {
  const source = decodeSource(block.source);
  if (source === undefined || source.kind === 'text') return undefined;
  return { type: 'image', source, ...commonOf(block, imageMembers) };
}

/** A document block; undefined when only this wire can express it (pages that hold images). */
function decodeDocument(block: JsonObject): FilePart | undefined {
  const given = asObject(block.source);
  const pages = given?.type === 'content' ? textOfBlocks(given.content) : undefined;
  const source: MediaSource | undefined =
    pages === undefined ? decodeSource(given) : { kind: 'text', text: pages };
  if (source === undefined) return undefined;
  const filename = asText(block.title);
  const context = asText(block.context);
  const citations = asObject(block.citations)?.enabled;
  // The block form is kept, because citations count its blocks.
  const common = commonOf(block, pages === undefined ? documentMembers : documentMembersButSource);
  return {
    type: 'file',
    source,
    ...(source.kind === 'url' ? { mediaType: 'application/pdf' } : {}),
    ...(filename === undefined ? {} : { filename }),
    ...(context === undefined ? {} : { context }),
    ...(typeof citations === 'boolean' ? { citations } : {}),
    ...common,
  };
}

/** A search result of the client, as a text document; undefined when it holds more than text. */
function decodeSearchResult(block: JsonObject): FilePart | undefined {
  const text = textOfBlocks(block.content);
  if (text === undefined) return undefined;
  const filename = asText(block.title);
  const context = asText(block.source);
  const own = { ...block };
  delete own.cache_control;
  return {
    type: 'file',
    source: { kind: 'text', text },
    ...(filename === undefined ? {} : { filename }),
    ...(context === undefined ? {} : { context }),
    ...commonOf({ cache_control: block.cache_control, search_result: own }, new Set()),
  };
}

function decodeSource(value: unknown): MediaSource | undefined {
  const source = asObject(value);
  if (source === undefined) return undefined;
  const { url, data, file_id: id } = source;
  const mediaType = asText(source.media_type);
  if (source.type === 'url' && typeof url === 'string') return { kind: 'url', url };
  if (source.type === 'text' && typeof data === 'string') return { kind: 'text', text: data };
  if (source.type === 'file' && typeof id === 'string') return { kind: 'file-id', id, dialect: dialectName };
  if (source.type !== 'base64' || typeof data !== 'string' || mediaType === undefined) return undefined;
  return { kind: 'base64', mediaType, data };
}

/** The text of a string or of blocks that are all text; undefined when there is anything else. */
function textOfBlocks(content: unknown): string | undefined {
  if (typeof content === 'string') return content;
  const blocks = asArray(content).map(asObject);
  if (blocks.length === 0 || blocks.some((block) => typeof block?.text !== 'string')) return undefined;
  return blocks.map((block) => String(block?.text)).join('\n');
}

/** Name of this wire, the key of its own members in extras. */
export const dialectName = 'anthropic-messages' satisfies DialectName;

/** Extras that only this wire has, of any value that may carry extras. */
function ownExtras(value: { readonly extras?: Extras | undefined }): JsonObject {
  return value.extras?.[dialectName] ?? {};
}

/** Members of a block, tool or message outside the canonical form, to be spread into its part. */
interface Common {
  readonly cache?: CacheMarker;
  readonly extras?: Extras;
}

/**
 * The cache marker of a block and its members that `known` does not name. Null members are left out; a marker with
 * further members (`scope`) is also kept in full.
 */
function commonOf(block: JsonObject, known: ReadonlySet<string>): Common {
  const rest: JsonObject = {};
  for (const [name, value] of Object.entries(block)) {
    if (!known.has(name) && name !== 'cache_control' && value !== null && name !== '__proto__') {
      rest[name] = value;
    }
  }
  const control = asObject(block.cache_control);
  const ttl = asText(control?.ttl);
  if (control !== undefined && Object.keys(control).some((name) => name !== 'type' && name !== 'ttl')) {
    rest.cache_control = control;
  }
  const cache = control === undefined ? undefined : ttl === undefined ? {} : { ttl };
  return {
    ...(cache === undefined ? {} : { cache }),
    ...(Object.keys(rest).length === 0 ? {} : { extras: { [dialectName]: rest } }),
  };
}

/** Adds the cache marker and this wire's own members to a block; the latter win. */
function addCommon(
  block: JsonObject,
  part: { readonly cache?: CacheMarker | undefined; readonly extras?: Extras | undefined },
): JsonObject {
  if (part.cache !== undefined) {
    const { ttl } = part.cache;
    block.cache_control = ttl === undefined ? { type: 'ephemeral' } : { type: 'ephemeral', ttl };
  }
  return Object.assign(block, ownExtras(part));
}

const textMembers = new Set(['type', 'text', 'citations']);
const callMembers = new Set(['type', 'id', 'name', 'input', 'extra_content']);
const resultMembers = new Set(['type', 'tool_use_id', 'content', 'is_error']);
const resultMembersButContent = new Set(['type', 'tool_use_id', 'is_error']);
const thinkingMembers = new Set(['type', 'thinking', 'signature']);
const redactedMembers = new Set(['type', 'data']);

/** A content block of a request or of an answer. A block that only this wire understands becomes an opaque part. */
function decodeBlock(block: JsonObject): ChatPart {
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
function providerTool(block: JsonObject): ProviderToolPart | undefined {
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
function decodeToolUse(block: JsonObject): ToolCallPart {
  const signature = thoughtSignature(block);
  return {
    type: 'tool-call',
    kind: 'function',
    id: asText(block.id) ?? '',
    name: asText(block.name) ?? '',
    arguments: stringifyExact(asObject(block.input) ?? {}),
    ...(signature === undefined ? {} : { signature }),
    // The model itself is the normal caller and is left out; another caller, a program of the model's, is kept.
    ...commonOf(asObject(block.caller)?.type === 'direct' ? { ...block, caller: null } : block, callMembers),
  };
}

/** Gemini's signature of a call, in the place where the writer of this wire's answers stores it. */
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
  // The block keeps content that the canonical form cannot hold (tool references) in its original form.
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
function contentBlocks(content: unknown): readonly JsonObject[] {
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }];
  return asArray(content).flatMap<JsonObject>((value) =>
    typeof value === 'string' ? [{ type: 'text', text: value }] : (asObject(value) ?? []),
  );
}

/** A text block; citations that the wire cannot express are left out. */
function encodeText(part: TextPart): JsonObject {
  const block: JsonObject = { type: 'text', text: part.text };
  const citations = (part.citations ?? []).flatMap((citation) => encodeCitation(citation) ?? []);
  if (citations.length > 0) block.citations = citations;
  return addCommon(block, part);
}

/** A `tool_use` block with this input. */
function encodeToolUse(part: ToolCallPart, input: JsonObject): JsonObject {
  return addCommon({ type: 'tool_use', id: part.id, name: part.name, input }, part);
}

/** A citation of a text block; its original form is kept beside the canonical members. */
function decodeCitation(value: JsonObject): Citation {
  const citation: { -readonly [member in keyof Citation]: Citation[member] } = {
    kind: value.type === 'web_search_result_location' ? 'url' : 'document',
    raw: { dialect: dialectName, value },
  };
  const url = asText(value.url) ?? asText(value.source);
  const title = asText(value.title) ?? asText(value.document_title);
  const quote = asText(value.cited_text);
  const document = asCount(value.document_index) ?? asCount(value.search_result_index);
  const fileId = asText(value.file_id);
  if (url !== undefined) citation.url = url;
  if (title !== undefined) citation.title = title;
  if (quote !== undefined) citation.quote = quote;
  if (document !== undefined) citation.document = document;
  if (fileId !== undefined) citation.fileId = fileId;
  return citation;
}

/** The citation in this wire's form; undefined for a document citation without a position. */
function encodeCitation(citation: Citation): JsonObject | undefined {
  if (citation.raw?.dialect === dialectName) return citation.raw.value;
  if (citation.url === undefined) return undefined;
  return {
    type: 'web_search_result_location',
    url: citation.url,
    title: citation.title ?? null,
    cited_text: citation.quote ?? '',
    encrypted_index: '',
  };
}

/**
 * Models without structured outputs get a tool whose input is the answer. Its name tells the decoder that a call of it
 * is the requested text. Undefined when the request has no schema that a tool can use.
 */
export function answerToolName({ responseFormat, tools }: ChatRequest): string | undefined {
  if (responseFormat?.type !== 'json-schema' || responseFormat.schema.type !== 'object') return undefined;
  const isTaken = tools.some((tool) => 'name' in tool && tool.name === 'json');
  return isTaken ? 'json_answer' : 'json';
}

/** The definition of that tool. */
export function answerTool(request: ChatRequest): JsonObject | undefined {
  const name = answerToolName(request);
  if (name === undefined || request.responseFormat?.type !== 'json-schema') return undefined;
  const { schema, description } = request.responseFormat;
  return { name, description: description ?? 'Give the answer as a JSON object.', input_schema: schema };
}
