import type { ChatEventBuilder } from '../../../core/dialects/canonical/chat-event-builder.ts';
import type { DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type { JsonObject, ToolCallPart } from '../../../core/dialects/canonical/chat-part.ts';
import { asText } from '../json-reading.ts';
import { decodeArguments } from './call-arguments.ts';
import { member, memberObject } from './member.ts';
import { PartialArguments } from './partial-arguments.ts';

interface OpenCall {
  readonly key: string;
  readonly kind: ToolCallPart['kind'];
  readonly pieces: PartialArguments;
  /** The arguments as a whole, when an event tells them so: they win over the pieces. */
  whole: unknown;
}

/**
 * Reads the function calls of one candidate. A call comes whole, or begins with a name and `willContinue`, goes on in
 * events without a name and ends with the first that will not continue, with the next part or with the answer. Its
 * arguments are given out at once when it ends: only then are they known to be one valid object.
 */
export class CallReader {
  private readonly builder: ChatEventBuilder;
  private readonly choice: number;
  private readonly context: DecodeContext;
  private open: OpenCall | undefined;
  private count = 0;

  constructor(builder: ChatEventBuilder, choice: number, context: DecodeContext) {
    this.builder = builder;
    this.choice = choice;
    this.context = context;
  }

  /** The client has calls to answer. */
  get hasCalls(): boolean {
    return this.count > 0;
  }

  read(call: JsonObject, signature: string | undefined): void {
    const name = asText(call.name);
    if (name !== undefined) this.begin(name, asText(call.id));
    const { open } = this;
    if (open === undefined) return;
    if (call.args !== undefined) open.whole = call.args;
    open.pieces.add(member(call, 'partialArgs'));
    if (signature !== undefined) this.builder.signature(this.choice, open.key, signature);
    if (member(call, 'willContinue') !== true) this.end();
  }

  /** Ends the call that is open. */
  end(): void {
    const { open } = this;
    if (open === undefined) return;
    this.open = undefined;
    const { kind } = open;
    const args = open.whole === undefined ? open.pieces.text() : decodeArguments(open.whole, kind);
    this.builder.arguments(this.choice, open.key, open.whole === undefined ? plainInput(args, kind) : args);
    this.builder.close(this.choice, open.key);
  }

  private begin(name: string, given: string | undefined): void {
    this.end();
    const id = given ?? this.context.newId('call_');
    const key = `call:${id}`;
    const isCustom = this.context.request.tools.some((tool) => tool.type === 'custom' && tool.name === name);
    const kind = isCustom ? 'custom' : 'function';
    this.builder.closeFlow(this.choice);
    this.builder.open(this.choice, key, { type: 'tool-call', id, name, kind, arguments: '' });
    this.count++;
    this.open = { key, kind, pieces: new PartialArguments(), whole: undefined };
  }
}

function plainInput(text: string, kind: ToolCallPart['kind']): string {
  return kind === 'custom' ? decodeArguments(memberObject({ args: JSON.parse(text) }, 'args'), kind) : text;
}
