import type { DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatEventBuilder } from '../../../core/dialects/canonical/chat-event-builder.ts';
import { parseExactObject } from '../exact-json.ts';
import { asArray, asCount, asObject, asText, type JsonObject } from '../json-reading.ts';
import { imagePart, providerTool } from './decode-answer.ts';
import { readCitation } from './read-citation.ts';
import { AnswerTools, inputText, toolUseIdOf, toolUseName, type ToolUseKind } from './read-tool-use.ts';

interface OpenBlock {
  readonly kind: 'text' | 'reasoning' | 'redacted' | 'image' | 'result' | ToolUseKind;
  /** Of the part in the builder; parts that come whole get theirs at the end. */
  readonly key: string;
  /** What `contentBlockStart` told. */
  readonly head: JsonObject;
  /** Pieces of what is passed on whole: the input of a custom or provider's tool, bytes. */
  readonly pieces: string[];
  /** Content of a provider's tool result. */
  readonly content: unknown[];
}

/**
 * The blocks of a streamed answer. Text and reasoning have no start of their own, an index may be missing or come
 * again, and what a repeated start says twice counts once.
 */
export class StreamBlocks {
  readonly #builder: ChatEventBuilder;
  readonly #context: DecodeContext;
  readonly #tools: AnswerTools;
  readonly #open = new Map<number, OpenBlock>();
  readonly #seenCalls = new Set<string>();
  /** Text that is shown only when the answer does not come through a tool. */
  readonly #held: string[] = [];
  #answered = false;
  #count = 0;
  /** A call was made that the client must answer. */
  called = false;

  constructor(builder: ChatEventBuilder, context: DecodeContext) {
    this.#builder = builder;
    this.#context = context;
    this.#tools = new AnswerTools(context.request);
  }

  /** What the model said beside an answer that came through a tool. */
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
      this.#builder.citation(0, this.#ensure(index, 'text').key, readCitation(citation));
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

  /** The message is over: everything that is still open ends. */
  end(): void {
    for (const index of [...this.#open.keys()]) this.#close(index);
    if (!this.#answered) this.#showHeld();
  }

  #startToolUse(index: number, toolUse: JsonObject): void {
    const id = toolUseIdOf(toolUse, this.#context);
    if (this.#seenCalls.has(id)) return;
    this.#seenCalls.add(id);
    const name = toolUseName(toolUse);
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

  /** The open block of this kind, else a new one: the builder has its part then. */
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
    const text = typeof input === 'string' ? input : inputText(input, 'function');
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
        if (pieces.length > 0) builder.open(0, key, imagePart(asText(head.format), joinBase64(pieces)));
        break;
      case 'custom':
        builder.arguments(0, key, inputText(parseExactObject(pieces.join('')) ?? pieces.join(''), 'custom'));
        break;
      case 'answer':
        if (pieces.length === 0) builder.text(0, key, '{}');
        break;
      case 'provider': {
        const input = pieces.length === 0 ? {} : (parseExactObject(pieces.join('')) ?? pieces.join(''));
        const value = { toolUse: { ...head, input } };
        builder.open(0, key, providerTool('call', asText(head.toolUseId) ?? '', toolUseName(head), value));
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
    this.#builder.open(0, key, providerTool('result', toolUseIdOf(head, this.#context), name, value));
  }
}

/** Base64 whose pieces were encoded one by one. */
function joinBase64(pieces: readonly string[]): string {
  if (pieces.length === 1) return pieces[0] as string;
  return Buffer.concat(pieces.map((piece) => Buffer.from(piece, 'base64'))).toString('base64');
}
