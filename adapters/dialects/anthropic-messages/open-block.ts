import type { ChatEventBuilder } from '../../../core/dialects/canonical/chat-event-builder.ts';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import type { ProviderError } from '../../../core/dialects/canonical/provider-error.ts';
import { parseExactObject, stringifyExact } from '../exact-json.ts';
import { asObject, asText, type JsonObject } from '../json-reading.ts';
import { decodeCitation } from './citations.ts';
import { freeText, type CallReading } from './decode-answer.ts';
import { decodeBlock } from './decode-block.ts';

/**
 * A content block of a stream between its start and its stop. Texts, thoughts and arguments are told as they come; what
 * the canonical form wants whole (tools that the provider runs, free text inside JSON) is told at the stop.
 */
export class OpenBlock {
  private readonly builder: ChatEventBuilder;
  private readonly calls: CallReading;
  private readonly key: string;
  private readonly block: JsonObject;
  private readonly part: ChatPart;
  /** What the block is told as. */
  private readonly kind: 'text' | 'thinking' | 'call' | 'answer' | 'custom' | 'whole';
  /** Input came in deltas. */
  private hasInput = false;
  /** The input so far, where it is told whole. */
  private input = '';
  private signature = '';

  constructor(builder: ChatEventBuilder, calls: CallReading, key: string, block: JsonObject) {
    this.builder = builder;
    this.calls = calls;
    this.key = key;
    this.block = block;
    this.part = decodeBlock(block);
    this.kind = kindOf(this.part, calls);
    this.begin();
  }

  delta(delta: JsonObject): void {
    switch (delta.type) {
      case 'text_delta':
        if (this.kind === 'text') this.builder.text(0, this.key, textOf(delta.text));
        return;
      case 'thinking_delta':
        if (this.kind === 'thinking') this.builder.reasoning(0, this.key, textOf(delta.thinking));
        return;
      case 'signature_delta':
        this.signature = asText(delta.signature) ?? this.signature;
        return;
      case 'input_json_delta':
        this.inputDelta(textOf(delta.partial_json));
        return;
      case 'citations_delta': {
        const citation = asObject(delta.citation);
        if (citation !== undefined && this.kind === 'text') {
          this.builder.citation(0, this.key, decodeCitation(citation));
        }
        return;
      }
      case 'compaction_delta':
        for (const [name, value] of Object.entries(delta)) if (name !== 'type') this.append(name, value);
    }
  }

  stop(): void {
    const { builder, key } = this;
    switch (this.kind) {
      case 'thinking':
        builder.signature(0, key, this.signature);
        break;
      case 'call':
        // Some hosts say the whole input at the start and no deltas.
        if (!this.hasInput) builder.arguments(0, key, this.givenInput());
        break;
      case 'answer':
        if (!this.hasInput) builder.text(0, key, this.givenInput() || '{}');
        break;
      case 'custom':
        builder.arguments(0, key, freeText(this.input || this.givenInput() || '{}'));
        break;
      case 'whole':
        builder.open(0, key, this.wholePart());
        break;
      case 'text':
    }
    builder.close(0, key);
  }

  private begin(): void {
    const { builder, key, part } = this;
    if (this.kind === 'whole') return;
    if (this.kind === 'answer') {
      builder.open(0, key, { type: 'text', text: '' });
      return;
    }
    if (part.type === 'tool-call') {
      const kind = this.kind === 'custom' ? 'custom' : 'function';
      const { signature, ...head } = part;
      this.calls.hasCall = true;
      builder.open(0, key, { ...head, kind, arguments: '' });
      if (signature !== undefined) builder.signature(0, key, signature);
    } else if (part.type === 'text') {
      const { citations, ...head } = part;
      builder.open(0, key, { ...head, text: '' });
      for (const citation of citations ?? []) builder.citation(0, key, citation);
      builder.text(0, key, part.text);
    } else if (part.type === 'reasoning') {
      const { signature, ...head } = part;
      this.signature = signature ?? '';
      builder.open(0, key, { ...head, text: '' });
      builder.reasoning(0, key, part.text);
    }
  }

  private inputDelta(text: string): void {
    if (text === '') return;
    this.hasInput = true;
    if (this.kind === 'call') this.builder.arguments(0, this.key, text);
    else if (this.kind === 'answer') this.builder.text(0, this.key, text);
    else if (this.input.length + text.length <= maxHeldCharacters) this.input += text;
    else this.builder.error(tooLong);
  }

  /** The input that stood in the block's start, as JSON; empty when it says nothing. */
  private givenInput(): string {
    const input = asObject(this.block.input);
    return input === undefined || Object.keys(input).length === 0 ? '' : stringifyExact(input);
  }

  private append(name: string, value: unknown): void {
    const before = this.block[name];
    if (typeof value !== 'string') {
      if (value !== null && name !== '__proto__') this.block[name] = value;
    } else this.block[name] = typeof before === 'string' ? before + value : value;
  }

  /** The block with the input that its deltas spelled. */
  private wholePart(): ChatPart {
    if (this.input === '') return decodeBlock(this.block);
    // Some streams lose the brace that opens the input of a server's tool.
    const input = parseExactObject(this.input) ?? parseExactObject(`{${this.input}`);
    return decodeBlock({ ...this.block, input: input ?? { input: this.input } });
  }
}

/** Characters of input that may be held until a block ends. */
const maxHeldCharacters = 16 * 1024 * 1024;

const tooLong: ProviderError = {
  status: 502,
  message: `The provider's stream holds a tool input of more than ${maxHeldCharacters} characters.`,
  type: 'upstream_error',
};

function kindOf(part: ChatPart, calls: CallReading): OpenBlock['kind'] {
  switch (part.type) {
    case 'text':
      return 'text';
    case 'reasoning':
      return part.redacted === undefined ? 'thinking' : 'whole';
    case 'tool-call': {
      const kind = calls.kindOf(part.name);
      return kind === 'function' ? 'call' : kind;
    }
    default:
      return 'whole';
  }
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
