import type {
  ChatClientCodec,
  ChatEventReader,
  ChatProviderCodec,
  DecodeContext,
} from '../../../core/dialects/canonical/chat-codec.ts';
import type { ProviderDialect } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { countTokensOperation, endpointPlan } from '../host-endpoints.ts';
import { bedrockOperations } from './operations.ts';
import { AnswerTools, converseAnswer, type ToolUseKind, usedTool } from './decode-answer.ts';
import { bedrockErrors } from './errors.ts';
import { encodeConverse } from './encode-request.ts';
import { ChatEventBuilder, cutShort } from '../../../core/dialects/canonical/chat-event-builder.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import { createPayloadReader } from '../../framing/payload-reader.ts';
import type { PayloadReader, StreamPayload } from '../../framing/stream-payload.ts';
import { asArray, asCount, asObject, asText, type JsonObject, parseExactObject } from '../json-reading.ts';

interface OpenBlock {
  readonly kind: 'text' | 'reasoning' | 'redacted' | 'image' | 'result' | ToolUseKind;
  /** Key of the part in the builder; parts that are emitted whole get theirs at the end. */
  readonly key: string;
  /** Content of `contentBlockStart`. */
  readonly head: JsonObject;
  /** Pieces of content that is emitted whole: the input of a custom or provider tool, bytes. */
  readonly pieces: string[];
  /** Content of a provider's tool result. */
  readonly content: unknown[];
}

/**
 * The blocks of a streamed answer. Text and reasoning have no start event, an index may be missing or repeated, and a
 * repeated start counts once.
 */
class StreamBlocks {
  readonly #builder: ChatEventBuilder;
  readonly #context: DecodeContext;
  readonly #tools: AnswerTools;
  readonly #open = new Map<number, OpenBlock>();
  readonly #seenCalls = new Set<string>();
  /** Text that is emitted only when the answer does not come through a tool. */
  readonly #held: string[] = [];
  #answered = false;
  #count = 0;
  /** The answer holds a call that the client must answer. */
  called = false;

  constructor(builder: ChatEventBuilder, context: DecodeContext) {
    this.#builder = builder;
    this.#context = context;
    this.#tools = new AnswerTools(context.request);
  }

  /** Text beside an answer given through a tool. */
  get preamble(): string {
    return this.#answered ? this.#held.join('') : '';
  }

  start(told: JsonObject): void {
    const index = asCount(told.contentBlockIndex) ?? 0;
    const start = asObject(told.start);
    const toolUse = asObject(start?.toolUse);
    if (toolUse !== undefined) return this.#startToolUse(index, toolUse);
    const toolResult = asObject(start?.toolResult);
    if (toolResult !== undefined) this.#begin(index, 'result', toolResult);
    const image = asObject(start?.image);
    if (image !== undefined) this.#begin(index, 'image', image);
  }

  delta(told: JsonObject): void {
    const index = asCount(told.contentBlockIndex) ?? 0;
    const delta = asObject(told.delta);
    if (delta === undefined) return;
    if (typeof delta.text === 'string') return this.#text(index, delta.text);
    const toolUse = asObject(delta.toolUse);
    if (toolUse !== undefined) return this.#input(index, toolUse.input);
    const reasoning = asObject(delta.reasoningContent);
    if (reasoning !== undefined) return this.#reasoning(index, reasoning);
    const citation = asObject(delta.citation);
    if (citation !== undefined) {
      this.#showHeld();
      this.#builder.citation(0, this.#ensure(index, 'text').key, converseAnswer.citation(citation));
      return;
    }
    const open = this.#open.get(index);
    if (open?.kind === 'result') open.content.push(...asArray(delta.toolResult));
    const bytes = asText(asObject(asObject(delta.image)?.source)?.bytes);
    if (open?.kind === 'image' && bytes !== undefined) open.pieces.push(bytes);
  }

  stop(told: JsonObject): void {
    this.#close(asCount(told.contentBlockIndex) ?? 0);
  }

  /** Ends all open blocks at the end of the message. */
  end(): void {
    for (const index of [...this.#open.keys()]) this.#close(index);
    if (!this.#answered) this.#showHeld();
  }

  #startToolUse(index: number, toolUse: JsonObject): void {
    const id = usedTool.id(toolUse, this.#context);
    if (this.#seenCalls.has(id)) return;
    this.#seenCalls.add(id);
    const name = usedTool.name(toolUse);
    const kind = this.#tools.kindOf(toolUse, name);
    if (kind === 'function' || kind === 'custom') {
      this.called = true;
      this.#showHeld();
    }
    const { key } = this.#begin(index, kind, { ...toolUse, toolUseId: id });
    if (kind === 'answer') {
      this.#answered = true;
      this.#builder.open(0, key, { type: 'text', text: '' });
    } else if (kind !== 'provider') {
      this.#builder.open(0, key, { type: 'tool-call', id, name, kind, arguments: '' });
    }
  }

  #begin(index: number, kind: OpenBlock['kind'], head: JsonObject): OpenBlock {
    this.#close(index);
    const block: OpenBlock = { kind, key: `block:${this.#count++}`, head, pieces: [], content: [] };
    this.#open.set(index, block);
    return block;
  }

  /** The open block of this kind, else a new one, whose part is started in the builder. */
  #ensure(index: number, kind: 'text' | 'reasoning'): OpenBlock {
    const open = this.#open.get(index);
    if (open?.kind === kind) return open;
    const block = this.#begin(index, kind, {});
    this.#builder.open(0, block.key, { type: kind, text: '' });
    return block;
  }

  #text(index: number, text: string): void {
    if (text === '') return;
    if (this.#tools.answerName === undefined) this.#builder.text(0, this.#ensure(index, 'text').key, text);
    else this.#held.push(text);
  }

  #showHeld(): void {
    if (this.#held.length === 0 || this.#answered) return;
    const key = `block:${this.#count++}`;
    this.#builder.open(0, key, { type: 'text', text: '' });
    this.#builder.text(0, key, this.#held.splice(0).join(''));
    this.#builder.close(0, key);
  }

  #input(index: number, input: unknown): void {
    const open = this.#open.get(index);
    if (open === undefined || input === undefined || input === null || input === '') return;
    const text = typeof input === 'string' ? input : usedTool.inputText(input, 'function');
    if (open.kind === 'function') this.#builder.arguments(0, open.key, text);
    else if (open.kind === 'answer') {
      if (open.pieces.length === 0) open.pieces.push(text);
      this.#builder.text(0, open.key, text);
    } else if (open.kind === 'custom' || open.kind === 'provider') open.pieces.push(text);
  }

  #reasoning(index: number, reasoning: JsonObject): void {
    const redacted = asText(reasoning.redactedContent) ?? asText(reasoning.data);
    if (redacted !== undefined) {
      const open = this.#open.get(index);
      (open?.kind === 'redacted' ? open : this.#begin(index, 'redacted', {})).pieces.push(redacted);
      return;
    }
    const text = asText(reasoning.text);
    if (text !== undefined) this.#builder.reasoning(0, this.#ensure(index, 'reasoning').key, text);
    const signature = asText(reasoning.signature);
    if (signature !== undefined) this.#builder.signature(0, this.#ensure(index, 'reasoning').key, signature);
  }

  #close(index: number): void {
    const block = this.#open.get(index);
    if (block === undefined) return;
    this.#open.delete(index);
    const { kind, key, pieces, head } = block;
    const builder = this.#builder;
    switch (kind) {
      case 'redacted':
        builder.open(0, key, { type: 'reasoning', text: '', redacted: joinBase64(pieces) });
        break;
      case 'image':
        if (pieces.length > 0)
          builder.open(0, key, converseAnswer.imagePart(asText(head.format), joinBase64(pieces)));
        break;
      case 'custom':
        builder.arguments(
          0,
          key,
          usedTool.inputText(parseExactObject(pieces.join('')) ?? pieces.join(''), 'custom'),
        );
        break;
      case 'answer':
        if (pieces.length === 0) builder.text(0, key, '{}');
        break;
      case 'provider': {
        const input = pieces.length === 0 ? {} : (parseExactObject(pieces.join('')) ?? pieces.join(''));
        const value = { toolUse: { ...head, input } };
        builder.open(
          0,
          key,
          usedTool.provider('call', asText(head.toolUseId) ?? '', usedTool.name(head), value),
        );
        break;
      }
      case 'result':
        this.#openResult(block);
        break;
      case 'text':
      case 'reasoning':
      case 'function':
    }
    builder.close(0, key);
  }

  #openResult({ key, head, content }: OpenBlock): void {
    const name = (asText(head.type) ?? '').replace(/_result$/, '');
    const value = { toolResult: { ...head, content } };
    this.#builder.open(0, key, usedTool.provider('result', usedTool.id(head, this.#context), name, value));
  }
}

/** Joins base64 pieces that were encoded separately. */
function joinBase64(pieces: readonly string[]): string {
  if (pieces.length === 1) return pieces[0] as string;
  return Buffer.concat(pieces.map((piece) => Buffer.from(piece, 'base64'))).toString('base64');
}

const known: ReadonlySet<string> = new Set([
  'messageStart',
  'contentBlockStart',
  'contentBlockDelta',
  'contentBlockStop',
  'messageStop',
  'metadata',
]);

/**
 * Reads an answer of `ConverseStream`. The type of an event is in its header; events that hold their type as their only
 * member are accepted, too.
 */
class ConverseEventReader implements ChatEventReader {
  readonly #payloads: PayloadReader;
  readonly #context: DecodeContext;
  readonly #builder = new ChatEventBuilder();
  readonly #blocks: StreamBlocks;

  constructor(contentType: string, context: DecodeContext) {
    this.#payloads = createPayloadReader(contentType);
    this.#context = context;
    this.#blocks = new StreamBlocks(this.#builder, context);
  }

  push(chunk: Uint8Array): readonly ChatEvent[] {
    for (const payload of this.#payloads.push(chunk)) this.#read(payload);
    return this.#builder.take();
  }

  finish(): readonly ChatEvent[] {
    for (const payload of this.#payloads.finish()) this.#read(payload);
    if (this.#builder.isFinished(0)) this.#builder.complete();
    else this.#builder.error(cutShort);
    return this.#builder.take();
  }

  #read(payload: StreamPayload): void {
    const builder = this.#builder;
    if (builder.ended) return;
    if (payload.error !== undefined) {
      builder.error({
        status: 502,
        message: `The provider's stream is broken. ${payload.error}`,
        type: 'upstream_error',
      });
      return;
    }
    const data = parseExactObject(payload.data);
    if (payload.messageType === 'exception' || payload.messageType === 'error') {
      builder.error(bedrockErrors.ofStream(payload.event, data));
      return;
    }
    if (data === undefined) {
      if (payload.data !== '') builder.error(unreadable);
      return;
    }
    if (known.has(payload.event)) {
      this.#event(payload.event, asObject(data[payload.event]) ?? data);
      return;
    }
    for (const name in data) {
      const told = asObject(data[name]);
      if (told === undefined) continue;
      if (known.has(name)) this.#event(name, told);
      else if (name.endsWith('Exception')) builder.error(bedrockErrors.ofStream(name, told));
    }
  }

  #event(name: string, told: JsonObject): void {
    const builder = this.#builder;
    if (!builder.hasStarted) builder.start({ id: '', model: this.#context.request.model });
    switch (name) {
      case 'contentBlockDelta':
        return this.#blocks.delta(told);
      case 'contentBlockStart':
        return this.#blocks.start(told);
      case 'contentBlockStop':
        return this.#blocks.stop(told);
      case 'messageStop':
        return this.#stop(told);
      case 'metadata':
        return this.#metadata(told);
    }
  }

  #stop(told: JsonObject): void {
    const fields = told.additionalModelResponseFields;
    this.#blocks.end();
    this.#builder.finish(
      0,
      converseAnswer.finish(told.stopReason, this.#blocks.called, fields),
      converseAnswer.fieldExtras(fields, this.#context.request),
    );
    const { preamble } = this.#blocks;
    if (preamble !== '') this.#builder.extras({ 'bedrock-converse': { preamble } });
  }

  #metadata(told: JsonObject): void {
    const usage = converseAnswer.usage(told.usage);
    if (usage !== undefined) this.#builder.usage(usage);
    const extras = converseAnswer.extras(told);
    if (extras !== undefined) this.#builder.extras({ 'bedrock-converse': extras });
  }
}

const unreadable = {
  status: 502,
  message: "The provider's stream holds an event that is no JSON object.",
  type: 'upstream_error',
};

/** Chat by Bedrock's `Converse` and `ConverseStream`. The base URL is the host's root; requests are signed after encoding. */
export const bedrockConverseProvider: ChatProviderCodec = {
  encodeRequest: encodeConverse,
  decodeAnswer: converseAnswer.decode,
  eventReader: (contentType, context) => new ConverseEventReader(contentType, context),
  decodeError: bedrockErrors.decode,
};

/** Operations in OpenAI's shape that no Bedrock model offers. */
const missing: ReadonlyMap<EndpointId, string> = new Map([
  ['moderations', 'moderations'],
  ['audio.speech', 'speech'],
  ['audio', 'transcriptions'],
  ['images', 'image edits and variations'],
  ['files', 'files'],
  ['fine_tuning.jobs', 'fine-tuning jobs'],
  ['batches', 'batches'],
  ['models', 'list of models'],
]);

/** Codecs of other wires that the host needs. */
interface BedrockConverseParts {
  /** Reads the body of `messages/count_tokens`. */
  readonly anthropicClient: ChatClientCodec;
}

/** A host of Bedrock's runtime. Paths that the gateway does not model (`/model/{id}/invoke`) pass unchanged. */
export function createBedrockConverseHost({ anthropicClient }: BedrockConverseParts): ProviderDialect {
  const operations = new Map([
    ['messages.count_tokens', countTokensOperation(anthropicClient, bedrockOperations.tokenCounting)],
    ['embeddings', bedrockOperations.embeddings],
    ['images.generations', bedrockOperations.images],
    ['rerank', bedrockOperations.rerank],
  ]);
  return {
    name: 'bedrock-converse',
    plan(call) {
      const chat = endpointPlan.translated(call, bedrockConverseProvider);
      if (chat !== undefined) return chat;
      const codec = operations.get(call.endpoint);
      if (codec !== undefined) return { kind: 'operation', codec };
      const operation = missing.get(call.endpoint);
      return operation === undefined ? endpointPlan.passOn(call) : endpointPlan.refused(call, operation);
    },
  };
}
