import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import type { ChatEventReader, DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import { ChatEventBuilder, cutShort } from '../../../core/dialects/canonical/chat-event-builder.ts';
import { collectAnswer, mergeExtras } from '../../../core/dialects/canonical/collect-answer.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { asArray, asObject, asText, asUnixTime, type JsonObject, parseExactObject } from '../json-reading.ts';
import { choiceIndex, openAiErrors, openAiUsage } from '../openai-shapes.ts';
import type { Citation, Extras } from '../../../core/dialects/canonical/chat-part.ts';
import { ChoiceDecoder } from './choice-decoder.ts';
import { requestMember } from '../request-members.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import { createPayloadReader } from '../../framing/payload-reader.ts';
import type { PayloadReader, StreamPayload } from '../../framing/stream-payload.ts';

/** Decodes an answer, whole or streamed. */
export const chatAnswer = {
  createEventReader,
  decode: decodeAnswer,
  decodeObject: decodeAnswerObject,
  parse: parseAnswer,
};

/** Converts the JSON events of a stream into chat events. */
interface PayloadDecoder {
  read(json: JsonObject): void;
  /** At least one choice of the stream has finished. */
  readonly hasFinished: boolean;
  /** Ends the finished choices (`all`: every choice), and the answer. */
  complete(all: boolean): void;
  /** Handles the end marker, for wires without a finish reason. */
  marked?(): void;
}

/** Reads a stream that ends in `[DONE]`, the form shared by the hosts of the family. */
export class DoneStreamReader implements ChatEventReader {
  private readonly builder: ChatEventBuilder;
  private readonly payloads: PayloadReader;
  private readonly decoder: PayloadDecoder;

  constructor(contentType: string, builder: ChatEventBuilder, decoder: PayloadDecoder) {
    this.payloads = createPayloadReader(contentType);
    this.builder = builder;
    this.decoder = decoder;
  }

  push(chunk: Uint8Array): readonly ChatEvent[] {
    for (const payload of this.payloads.push(chunk)) this.read(payload);
    return this.builder.take();
  }

  finish(): readonly ChatEvent[] {
    for (const payload of this.payloads.finish()) this.read(payload);
    this.complete();
    return this.builder.take();
  }

  /** The end marker is optional, the finish reason is required. */
  private complete(): void {
    if (this.decoder.hasFinished) this.decoder.complete(false);
    else this.builder.error(cutShort);
  }

  private read({ data, event, error }: StreamPayload): void {
    const { builder } = this;
    if (builder.ended) return;
    if (error !== undefined) return builder.error({ status: 502, message: error, type: 'upstream_error' });
    if (data.length <= maxMarkerLength) {
      const text = data.trim();
      if (text === '') return;
      if (text === '[DONE]') {
        this.decoder.marked?.();
        return this.complete();
      }
    }
    const json = parseExactObject(data);
    if (json === undefined) {
      const message = "The provider's stream holds an event that is no JSON object.";
      return builder.error({ status: 502, message, type: 'upstream_error' });
    }
    const failure = openAiErrors.ofStream(json, event);
    if (failure !== undefined) return builder.error(failure);
    this.decoder.read(json);
  }
}

const maxMarkerLength = 16;

/** The reader of a chat completions stream. */
function createEventReader(contentType: string, context: DecodeContext): ChatEventReader {
  const builder = new ChatEventBuilder();
  return new DoneStreamReader(contentType, builder, new ChunkDecoder(builder, context));
}

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

  /** Reads one chunk, or a complete answer. */
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
    const unknown = requestMember.unknown(json, knownMembers);
    if (unknown !== undefined) this.extras = Object.assign(this.extras ?? {}, unknown);
    const foreign = asObject(json.provider_fields);
    if (foreign !== undefined) this.foreign = mergeExtras(this.foreign, foreign);
  }

  /** At least one choice has finished. */
  get hasFinished(): boolean {
    return this.choices.some(({ finished }) => finished);
  }

  /** Ends every finished choice (`all`: each), and emits the content of the whole answer. */
  complete(all: boolean): void {
    const sources = listedSources(this.extras ?? {});
    for (const choice of this.choices) if (all || choice.finished) choice.finish(sources);
    const own = this.extras === undefined ? undefined : { 'openai-chat': this.extras };
    const extras = mergeExtras(own, this.foreign);
    if (extras !== undefined) this.builder.extras(extras);
    this.builder.complete();
  }

  /** Azure and others send empty events first: the first one that names the answer counts. */
  private start(json: JsonObject): void {
    const { builder } = this;
    if (builder.hasStarted) return;
    const id = asText(json.id);
    const model = asText(json.model);
    if (id === undefined && model === undefined && asArray(json.choices).length === 0) return;
    builder.start({
      id: id ?? '',
      model: model ?? '',
      createdAt: asUnixTime(json.created) || undefined,
      serviceTier: asText(json.service_tier),
      systemFingerprint: asText(json.system_fingerprint),
    });
  }

  /** The last usage counts; members that it omits keep their value. */
  private readUsage(value: unknown): void {
    const members = asObject(value);
    if (members === undefined) return;
    this.usage = this.usage === undefined ? members : Object.assign(this.usage, members);
    const usage = openAiUsage.decode(this.usage);
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

/** A complete answer of any host of the family, read as the only chunk of a stream. */
function decodeAnswer(body: Buffer, context: DecodeContext): ChatAnswer {
  return decodeAnswerObject(parseAnswer(body), context);
}

/** Same for a parsed body. */
function decodeAnswerObject(json: JsonObject, context: DecodeContext): ChatAnswer {
  const builder = new ChatEventBuilder();
  const decoder = new ChunkDecoder(builder, context);
  decoder.read(json);
  decoder.complete(true);
  return collectAnswer(builder.take());
}

/** The JSON object of an answer with `choices`. Throws `upstream_invalid` for anything else. */
function parseAnswer(body: Buffer): JsonObject {
  const json = parseExactObject(body.toString('utf8'));
  if (json !== undefined && Array.isArray(json.choices)) return json;
  const said = json === undefined ? undefined : openAiErrors.message(json);
  throw new GatewayError(
    'upstream_invalid',
    said === undefined
      ? 'The provider answered with something that is no chat completion (no JSON object with choices).'
      : `The provider reported an error inside its answer: ${said}`,
    { source: 'provider' },
  );
}

/** The sources that search hosts list beside the answer: `citations` (URLs) and `search_results` (objects). */
function listedSources(json: JsonObject): readonly Citation[] {
  const results = asArray(json.search_results);
  const list = results.length > 0 ? results : asArray(json.citations);
  const sources: Citation[] = [];
  for (const item of list) {
    const source = asObject(item);
    const url = asText(item) ?? asText(source?.url);
    if (url === undefined) continue;
    const title = asText(source?.title);
    sources.push(title === undefined ? { kind: 'url', url } : { kind: 'url', url, title });
  }
  return sources;
}
