import type { ChatEventBuilder } from '../../../core/dialects/canonical/chat-event-builder.ts';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { decodeBlock } from './decode-content.ts';
import { decodeSaidBlock } from './decode-messages.ts';

/** Reads `content_blocks`, as another gateway writes them beside (and saying the same as) the plain members. */
export class BlockReader {
  private readonly builder: ChatEventBuilder;
  private readonly choice: number;
  private count = 0;

  constructor(builder: ChatEventBuilder, choice: number) {
    this.builder = builder;
    this.choice = choice;
  }

  /** False when there are none, so that the plain members must be read. */
  read(value: unknown): boolean {
    let found = false;
    for (const item of asArray(value)) {
      const block = asObject(item);
      const delta = asObject(block?.delta);
      if (block === undefined || (delta === undefined && asText(block.type) === undefined)) continue;
      found = true;
      if (delta === undefined) {
        for (const part of decodeSaidBlock(block)) this.whole(part, `block:whole:${this.count++}`);
      } else this.delta(delta, `block:${String(block.index)}`);
    }
    return found;
  }

  private delta(delta: JsonObject, key: string): void {
    const { builder, choice } = this;
    const text = asText(delta.text);
    const thinking = asText(delta.thinking);
    const type = asText(delta.type) ?? '';
    if (text !== undefined) {
      this.open(key, { type: 'text', text: '' });
      builder.text(choice, key, text);
    } else if (thinking !== undefined) {
      this.open(key, { type: 'reasoning', text: '' });
      builder.reasoning(choice, key, thinking);
    } else if (asText(delta.data) !== undefined && (type === '' || type === 'redacted_thinking')) {
      this.whole({ type: 'reasoning', text: '', redacted: asText(delta.data) ?? '' }, key);
    } else if (type !== '') {
      const part = decodeBlock(delta, type);
      if (part?.type === 'provider-tool') this.whole(part, key);
    }
    const citation = asObject(delta.citation);
    if (citation !== undefined) this.cite(citation, key);
    const signature = asText(delta.signature);
    if (signature !== undefined) builder.signature(choice, key, signature);
  }

  private cite(citation: JsonObject, key: string): void {
    const [part] = decodeSaidBlock({ type: 'text', text: '', citations: [citation] });
    if (part?.type !== 'text') return;
    this.open(key, { type: 'text', text: '' });
    for (const one of part.citations ?? []) this.builder.citation(this.choice, key, one);
  }

  /** Blocks follow one another: where one begins, the one before it is over. */
  private open(key: string, head: ChatPart): void {
    if (this.builder.isOpen(this.choice, key)) return;
    this.builder.closeFlow(this.choice);
    this.builder.open(this.choice, key, head);
  }

  private whole(part: ChatPart, key: string): void {
    const { builder, choice } = this;
    const { signature, ...head } = part;
    if (head.type === 'text') {
      const { citations, ...plain } = head;
      this.open(key, { ...plain, text: '' });
      builder.text(choice, key, head.text);
      for (const citation of citations ?? []) builder.citation(choice, key, citation);
    } else if (head.type === 'reasoning') {
      this.open(key, { ...head, text: '' });
      builder.reasoning(choice, key, head.text);
    } else this.open(key, head);
    if (signature !== undefined) builder.signature(choice, key, signature);
    builder.close(choice, key);
  }
}
