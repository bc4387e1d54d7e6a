import type { DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatEventBuilder } from '../../../core/dialects/canonical/chat-event-builder.ts';
import type { Extras } from '../../../core/dialects/canonical/chat-part.ts';
import { mergeExtras } from '../../../core/dialects/canonical/collect-answer.ts';
import { asArray, asCount, asObject, asText, type JsonObject } from '../json-reading.ts';
import { decodeOpenAiUsage } from '../openai-usage.ts';
import { listedSources } from './annotations.ts';
import { ChoiceDecoder } from './choice-decoder.ts';
import { unknownMembers } from './member-reading.ts';
import { choiceIndex } from './stream-reader.ts';

const knownMembers: ReadonlySet<string> = new Set([
  ...['id', 'object', 'created', 'model', 'choices', 'usage', 'service_tier', 'system_fingerprint'],
  ...['x_groq', 'provider_fields', 'error'],
  // Padding against guessing a text by its length.
  ...['obfuscation', 'p'],
]);

/** Reads chunks, or a complete answer, of any host of the family into a builder. One per answer. */
export class ChunkDecoder {
  private readonly builder: ChatEventBuilder;
  private readonly context: DecodeContext;
  private readonly choices: ChoiceDecoder[] = [];
  private usage: JsonObject | undefined;
  private extras: JsonObject | undefined;
  private foreign: Extras | undefined;

  constructor(builder: ChatEventBuilder, context: DecodeContext) {
    this.builder = builder;
    this.context = context;
  }

  /** What one chunk, or a complete answer, says. */
  read(json: JsonObject): void {
    this.start(json);
    const choices = json.choices;
    if (Array.isArray(choices)) {
      for (let position = 0; position < choices.length; position++) {
        const choice = asObject(choices[position]);
        if (choice === undefined) continue;
        this.choice(choiceIndex(choice, position)).read(choice);
        this.readUsage(choice.usage);
      }
    }
    this.readUsage(asObject(json.x_groq)?.usage);
    this.readUsage(json.usage);
    const unknown = unknownMembers(json, knownMembers);
    if (unknown !== undefined) this.extras = Object.assign(this.extras ?? {}, unknown);
    const foreign = asObject(json.provider_fields);
    if (foreign !== undefined) this.foreign = mergeExtras(this.foreign, foreign);
  }

  /** A choice that is over; false for a stream that told of none. */
  get hasFinished(): boolean {
    return this.choices.some(({ finished }) => finished);
  }

  /** Ends every choice whose finish was told (`all`: each), and says what belongs to the whole answer. */
  complete(all: boolean): void {
    const sources = listedSources(this.extras ?? {});
    for (const choice of this.choices) if (all || choice.finished) choice.finish(sources);
    const own = this.extras === undefined ? undefined : { 'openai-chat': this.extras };
    const extras = mergeExtras(own, this.foreign);
    if (extras !== undefined) this.builder.extras(extras);
    this.builder.complete();
  }

  /** Azure and others send empty events first: the one that names the answer counts. */
  private start(json: JsonObject): void {
    const { builder } = this;
    if (builder.hasStarted) return;
    const id = asText(json.id);
    const model = asText(json.model);
    if (id === undefined && model === undefined && asArray(json.choices).length === 0) return;
    const created = asCount(json.created);
    builder.start({
      id: id ?? '',
      model: model ?? '',
      createdAt: created === undefined || created === 0 ? undefined : Math.floor(created),
      serviceTier: asText(json.service_tier),
      systemFingerprint: asText(json.system_fingerprint),
    });
  }

  /** The last usage holds; what it does not mention keeps its value. */
  private readUsage(value: unknown): void {
    const members = asObject(value);
    if (members === undefined) return;
    this.usage = this.usage === undefined ? members : Object.assign(this.usage, members);
    const usage = decodeOpenAiUsage(this.usage);
    if (usage !== undefined) this.builder.usage(usage);
  }

  private choice(index: number): ChoiceDecoder {
    let choice = this.choices.find((one) => one.index === index);
    if (choice === undefined) {
      choice = new ChoiceDecoder(this.builder, index, this.context);
      this.choices.push(choice);
    }
    return choice;
  }
}
