import { type EncodeReport, reportForeignExtras } from '../../../core/dialects/canonical/chat-codec.ts';
import type {
  ChatPart,
  MediaSource,
  FilePart,
  ReasoningPart,
  ToolResultPart,
  TextPart,
  ToolCallPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import type {
  ChatRequest,
  ResponseFormat,
  ToolChoice,
  ToolDefinition,
  ChatMessage,
} from '../../../core/dialects/canonical/chat-request.ts';
import type { DialectName } from '../../../core/dialects/endpoint.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { dataUrls } from '../request-members.ts';
import { dialect, textAnnotation } from './answer.ts';

/** Encodes tools, their choice and the format of the answer. */
export const requestTools = { format: encodeFormat, list: encodeTools, choice: encodeToolChoice };

/** A response format as `text.format`. The wire requires a name for a schema; the default is `response`. */
function encodeFormat(format: ResponseFormat): JsonObject {
  if (format.type !== 'json-schema') return { type: format.type === 'json' ? 'json_object' : 'text' };
  return {
    type: 'json_schema',
    name: format.name ?? 'response',
    ...(format.description !== undefined && { description: format.description }),
    schema: format.schema,
    ...(format.strict !== undefined && { strict: format.strict }),
  };
}

/** The tools of a request in this wire's form; unsupported ones are reported as `tools[i]`. */
function encodeTools(tools: readonly ToolDefinition[], report: EncodeReport): readonly JsonObject[] {
  const encoded = tools.map((tool, i) => {
    const place = `tools[${i}]`;
    if (tool.type === 'provider') return providerTool(tool, place, report);
    if (tool.cache !== undefined) report.drop(`${place}.cache_control`);
    return tool.type === 'custom' ? customTool(tool) : functionTool(tool, place, report);
  });
  return encoded.filter((tool) => tool !== undefined);
}

function customTool(tool: Extract<ToolDefinition, { type: 'custom' }>): JsonObject {
  const { name, description, format } = tool;
  return {
    type: 'custom',
    name,
    ...(description !== undefined && { description }),
    ...(format !== undefined && { format }),
  };
}

/** On this wire a schema is strict by default; on all others it is not. */
function functionTool(
  tool: Extract<ToolDefinition, { type: 'function' }>,
  place: string,
  report: EncodeReport,
): JsonObject {
  reportForeignExtras(tool.extras, ownDialects, report, `${place}.`);
  return {
    ...tool.extras?.[dialect],
    type: 'function',
    name: tool.name,
    ...(tool.description !== undefined && { description: tool.description }),
    parameters: tool.parameters ?? null,
    strict: tool.strict ?? false,
  };
}

/** A tool that providers of both wires run. */
function providerTool(
  tool: Extract<ToolDefinition, { type: 'provider' }>,
  place: string,
  report: EncodeReport,
): JsonObject | undefined {
  if (tool.dialect === dialect) return tool.value;
  const translated = equivalentTool(tool.purpose, tool.value);
  if (translated === undefined) report.drop(place);
  else report.emulate(place);
  return translated;
}

function equivalentTool(purpose: string, value: JsonObject): JsonObject | undefined {
  switch (purpose) {
    case 'web-search':
      return webSearch(value);
    case 'code-execution':
      return { type: 'code_interpreter', container: { type: 'auto' } };
    case 'image-generation':
      return { type: 'image_generation' };
    default:
      return undefined;
  }
}

function webSearch(value: JsonObject): JsonObject {
  const tool: JsonObject = { type: 'web_search' };
  const domains = asArray(value.allowed_domains);
  if (domains.length > 0) tool.filters = { allowed_domains: domains };
  const size = asText(value.search_context_size);
  if (size !== undefined) tool.search_context_size = size;
  const location = asObject(value.user_location);
  if (location !== undefined)
    tool.user_location = { type: 'approximate', ...(asObject(location.approximate) ?? location) };
  return tool;
}

/** The tool choice in this wire's form. */
function encodeToolChoice(choice: ToolChoice, tools: ChatRequest['tools']): unknown {
  switch (choice.type) {
    case 'tool':
      return { type: choice.kind, name: choice.name };
    case 'allowed': {
      const custom = new Set(tools.flatMap((tool) => (tool.type === 'custom' ? tool.name : [])));
      return {
        type: 'allowed_tools',
        mode: choice.mode,
        tools: choice.names.map((name) => ({ type: custom.has(name) ? 'custom' : 'function', name })),
      };
    }
    default:
      return choice.type;
  }
}

/** The dialects whose extras apply here. */
export const ownDialects: readonly DialectName[] = [dialect];

/** The dialects of hosts that share OpenAI's file store. */
const sharingFiles: ReadonlySet<DialectName> = new Set([dialect, 'openai-chat', 'azure-openai']);

const audioFormats: Readonly<Record<string, string>> = {
  'audio/mpeg': 'mp3',
  'audio/mp3': 'mp3',
  'audio/wav': 'wav',
  'audio/x-wav': 'wav',
  'audio/wave': 'wav',
  'audio/mp4': 'm4a',
};

/** Context of encoding a part. */
interface PartContext {
  readonly report: EncodeReport;
  /** True when the model accepts explicit ends of reusable prefixes. */
  readonly cacheMarkers: boolean;
  /** The provider stores its answers and finds them by id. */
  readonly stored: boolean;
}

/** The part in the form of an input message; undefined when the wire has none, which is reported as `place`. */
function encodeInputPart(part: ChatPart, place: string, context: PartContext): JsonObject | undefined {
  const encoded = withoutCache(part, place, context.report);
  if (encoded === undefined) return undefined;
  reportForeignExtras(part.extras, ownDialects, context.report, `${place}.`);
  if (part.signature !== undefined) context.report.drop(`${place}.signature`);
  if (part.cache === undefined) return encoded;
  if (context.cacheMarkers) encoded.prompt_cache_breakpoint = { mode: 'explicit' };
  if (!context.cacheMarkers || part.cache.ttl !== undefined) context.report.drop(`${place}.cache_control`);
  return encoded;
}

function withoutCache(part: ChatPart, place: string, report: EncodeReport): JsonObject | undefined {
  switch (part.type) {
    case 'text':
      return { type: 'input_text', text: part.text };
    case 'image':
      return dropUnless(encodeImage(part.source, part.detail), place, report);
    case 'file':
      return encodeFile(part, place, report);
    case 'audio':
      return dropUnless(encodeAudio(part.source), place, report);
    case 'opaque':
      return dropUnless(part.dialect === dialect ? { ...part.value } : undefined, place, report);
    default:
      report.drop(place);
      return undefined;
  }
}

function dropUnless(
  encoded: JsonObject | undefined,
  place: string,
  report: EncodeReport,
): JsonObject | undefined {
  if (encoded === undefined) report.drop(place);
  return encoded;
}

function encodeImage(source: MediaSource, detail: string | undefined): JsonObject | undefined {
  const image: JsonObject = { type: 'input_image' };
  if (source.kind === 'url') image.image_url = source.url;
  else if (source.kind === 'base64') image.image_url = dataUrls.encode(source);
  else if (source.kind === 'file-id' && sharingFiles.has(source.dialect)) image.file_id = source.id;
  else return undefined;
  if (detail !== undefined) image.detail = detail;
  return image;
}

function encodeFile(part: FilePart, place: string, report: EncodeReport): JsonObject | undefined {
  const { source, filename } = part;
  if (part.context !== undefined) report.drop(`${place}.context`);
  if (part.citations === true) report.drop(`${place}.citations`);
  if (source.kind === 'text') {
    report.emulate(place);
    return {
      type: 'input_text',
      text: filename === undefined ? source.text : `${filename}\n\n${source.text}`,
    };
  }
  const file: JsonObject = { type: 'input_file', ...part.extras?.[dialect] };
  if (source.kind === 'url') file.file_url = source.url;
  else if (source.kind === 'file-id') {
    if (!sharingFiles.has(source.dialect)) return dropUnless(undefined, place, report);
    file.file_id = source.id;
  } else {
    // The wire requires a name for bytes.
    file.filename = filename ?? nameOfType(source.mediaType);
    file.file_data = dataUrls.encode(source);
  }
  if (filename !== undefined && source.kind === 'url') report.drop(`${place}.filename`);
  return file;
}

function nameOfType(mediaType: string): string {
  const kind = mediaType.split('/')[1] ?? '';
  return /^[a-z0-9]+$/.test(kind) ? `file.${kind}` : 'file';
}

function encodeAudio(source: MediaSource): JsonObject | undefined {
  if (source.kind !== 'base64') return undefined;
  const format = audioFormats[source.mediaType] ?? source.mediaType.replace(/^audio\//, '');
  return { type: 'input_audio', input_audio: { data: source.data, format } };
}

/** Writes the items of a conversation. One per request. */
export class InputEncoder {
  readonly items: JsonObject[] = [];
  private readonly context: PartContext;

  constructor(context: PartContext) {
    this.context = context;
  }

  /** Adds the items of a message; `index` is its position in the request, for the report. */
  add(message: ChatMessage, index: number, role: string): void {
    const { report } = this.context;
    const place = `messages[${index}]`;
    if (message.name !== undefined) report.drop(`${place}.name`);
    reportForeignExtras(message.extras, ownDialects, report, `${place}.`);
    const at = (position: number): string => `${place}.content[${position}]`;
    if (message.role === 'assistant') message.parts.forEach((part, i) => this.assistantPart(part, at(i)));
    else if (message.role === 'tool') message.parts.forEach((part, i) => this.toolPart(part, at(i)));
    else this.inputMessage(message, place, role);
  }

  private inputMessage(message: ChatMessage, place: string, role: string): void {
    let content: JsonObject[] = [];
    const flush = (): void => {
      if (content.length > 0) this.items.push({ type: 'message', role, content });
      content = [];
    };
    message.parts.forEach((part, i) => {
      const at = `${place}.content[${i}]`;
      if (part.type === 'provider-tool' || part.type === 'tool-result') {
        flush();
        this.toolPart(part, at);
        return;
      }
      const encoded = encodeInputPart(part, at, this.context);
      if (encoded !== undefined) content.push(encoded);
    });
    flush();
  }

  private assistantPart(part: ChatPart, place: string): void {
    const { report } = this.context;
    reportForeignExtras(part.extras, ownDialects, report, `${place}.`);
    if (part.cache !== undefined) report.drop(`${place}.cache_control`);
    if (part.signature !== undefined && part.type !== 'reasoning') report.drop(`${place}.signature`);
    switch (part.type) {
      case 'text':
        return this.said(outputText(part), part);
      case 'refusal':
        return this.said({ type: 'refusal', refusal: part.text }, part);
      case 'reasoning':
        return this.reasoning(part, place);
      case 'tool-call':
        this.items.push(callItem(part));
        return;
      case 'image':
        return this.image(part, place);
      case 'audio':
        if (part.transcript === undefined) return report.drop(place);
        report.emulate(place);
        return this.said(outputText({ type: 'text', text: part.transcript }), part);
      case 'provider-tool':
      case 'opaque':
        if (part.dialect !== dialect) return report.drop(place);
        this.items.push(part.value);
        return;
      default:
        report.drop(place);
    }
  }

  /** Consecutive texts of one turn go into one message, unless their phases differ. */
  private said(content: JsonObject, part: ChatPart): void {
    const last = this.items.at(-1);
    const phase = asText(part.extras?.[dialect]?.phase);
    if (last?.role === 'assistant' && last.phase === phase && Array.isArray(last.content)) {
      (last.content as JsonObject[]).push(content);
      return;
    }
    const message: JsonObject = { type: 'message', role: 'assistant', content: [content] };
    if (phase !== undefined) message.phase = phase;
    this.items.push(message);
  }

  /**
   * A summary cannot be returned without its encrypted content when the thoughts are not stored; open models show
   * theirs.
   */
  private reasoning(part: ReasoningPart, place: string): void {
    const last = this.items.at(-1);
    const isThought = part.summary !== true && part.itemId !== undefined && part.text !== '';
    const isKept =
      part.signature !== undefined || (part.itemId !== undefined && (isThought || this.context.stored));
    if (part.redacted !== undefined || !isKept) {
      this.context.report.drop(place);
      return;
    }
    const joins = last?.type === 'reasoning' && part.itemId !== undefined && last.id === part.itemId;
    const item: JsonObject = joins ? last : { type: 'reasoning', summary: [] };
    if (part.itemId !== undefined) item.id = part.itemId;
    if (isThought) item.content = [{ type: 'reasoning_text', text: part.text }];
    else if (part.text !== '') item.summary = [{ type: 'summary_text', text: part.text }];
    if (part.signature !== undefined) item.encrypted_content = part.signature;
    if (!joins) this.items.push(item);
  }

  private image(part: Extract<ChatPart, { type: 'image' }>, place: string): void {
    const made = part.extras?.[dialect];
    if (made === undefined || part.source.kind !== 'base64') return this.context.report.drop(place);
    this.items.push({ ...made, type: 'image_generation_call', result: part.source.data });
  }

  private toolPart(part: ChatPart, place: string): void {
    const { report } = this.context;
    reportForeignExtras(part.extras, ownDialects, report, `${place}.`);
    if (part.type === 'provider-tool' && part.dialect === dialect) {
      this.items.push(part.value);
      return;
    }
    if (part.type !== 'tool-result') return report.drop(place);
    if (part.cache !== undefined) report.drop(`${place}.cache_control`);
    if (part.isError === true) report.drop(`${place}.is_error`);
    this.items.push({
      type: part.kind === 'custom' ? 'custom_tool_call_output' : 'function_call_output',
      call_id: part.callId,
      output: this.output(part, place),
    });
  }

  private output(part: ToolResultPart, place: string): unknown {
    const [first] = part.content;
    if (first === undefined) return '';
    const isPlain = part.content.length === 1 && first.type === 'text' && first.cache === undefined;
    if (isPlain) return first.text;
    return part.content.flatMap(
      (one, i) => encodeInputPart(one, `${place}.content[${i}]`, this.context) ?? [],
    );
  }
}

function outputText(part: TextPart): JsonObject {
  return {
    type: 'output_text',
    text: part.text,
    annotations: (part.citations ?? []).map((citation) => textAnnotation.encode(citation, part.text.length)),
  };
}

/** A call as an item of a history. */
function callItem(part: ToolCallPart): JsonObject {
  const item: JsonObject = { ...part.extras?.[dialect] };
  if (part.kind === 'custom') item.type = 'custom_tool_call';
  else item.type = 'function_call';
  if (part.itemId !== undefined) item.id = part.itemId;
  item.call_id = part.id;
  item.name = part.name;
  if (part.kind === 'custom') item.input = part.arguments;
  else item.arguments = part.arguments === '' ? '{}' : part.arguments;
  return item;
}
