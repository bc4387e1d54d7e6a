import type { ProviderDialect } from '../../../core/dialects/dialect.ts';
import { anthropicClient } from '../anthropic-messages/index.ts';
import { countTokensOperation, passOn, translated } from '../host-endpoints.ts';
import { encodeRequest, responsesTokenCounting } from './encode-request.ts';
import type {
  ChatEventReader,
  ChatProviderCodec,
  DecodeContext,
} from '../../../core/dialects/canonical/chat-codec.ts';
import { decodeOpenAiError, decodeOpenAiUsage } from '../openai-shapes.ts';
import { decodeAnswer, eventError, finishOf, responseError, responseExtras, serviceTier } from './answer.ts';
import { ChatEventBuilder, cutShort } from '../../../core/dialects/canonical/chat-event-builder.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import { createPayloadReader } from '../../framing/payload-reader.ts';
import type { StreamPayload } from '../../framing/stream-payload.ts';
import { asObject, asText, asUnixTime, type JsonObject, parseExactObject } from '../json-reading.ts';
import { ItemEvents } from './item-events.ts';

/** Reads the stream of a Responses host. */
function createEventReader(contentType: string, context: DecodeContext): ChatEventReader {
  return new ResponsesEventReader(contentType, context);
}

class ResponsesEventReader implements ChatEventReader {
  private readonly payloads: ReturnType<typeof createPayloadReader>;
  private readonly builder = new ChatEventBuilder();
  private readonly items: ItemEvents;
  private startTier: string | undefined;

  constructor(contentType: string, context: DecodeContext) {
    this.payloads = createPayloadReader(contentType);
    this.items = new ItemEvents(this.builder, context.newId);
  }

  push(chunk: Uint8Array): readonly ChatEvent[] {
    for (const payload of this.payloads.push(chunk)) this.payload(payload);
    return this.builder.take();
  }

  finish(): readonly ChatEvent[] {
    for (const payload of this.payloads.finish()) this.payload(payload);
    // Only the final response marks the stream as complete.
    this.builder.error(cutShort);
    return this.builder.take();
  }

  private payload({ data, event, error }: StreamPayload): void {
    if (error !== undefined) {
      this.builder.error({
        status: 502,
        message: `The provider's stream is broken: ${error}`,
        type: 'upstream_error',
      });
      return;
    }
    const text = data.trim();
    if (text === '' || text === '[DONE]' || this.builder.ended) return;
    const json = parseExactObject(text);
    if (json === undefined) {
      this.builder.error({
        status: 502,
        message: "The provider's stream holds an event that is no JSON object.",
        type: 'upstream_error',
      });
      return;
    }
    this.event(json, asText(json.type) ?? event);
  }

  private event(json: JsonObject, type: string): void {
    if (type.endsWith('.delta')) return this.delta(json, type);
    switch (type) {
      case 'response.created':
      case 'response.queued':
      case 'response.in_progress':
        return this.start(asObject(json.response) ?? {});
      case 'response.output_item.added':
        return this.items.added(json);
      case 'response.output_item.done':
        return this.items.done(json);
      case 'response.content_part.done':
        return this.items.partDone(json);
      case 'response.output_text.done':
        return this.items.textDone(json, 'text', json.text);
      case 'response.refusal.done':
        return this.items.textDone(json, 'refusal', json.refusal);
      case 'response.output_text.annotation.added':
        return this.items.annotation(json);
      case 'response.reasoning_summary_text.done':
        return this.items.summaryDone(json, json.text);
      case 'response.function_call_arguments.done':
        return this.items.argumentsDone(json, json.arguments);
      case 'response.custom_tool_call_input.done':
        return this.items.argumentsDone(json, json.input);
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed':
      case 'response.cancelled':
        return this.final(asObject(json.response) ?? {}, type.slice('response.'.length));
      case 'error':
        return this.builder.error(eventError(json));
      default:
        this.untyped(json);
    }
  }

  private delta(json: JsonObject, type: string): void {
    switch (type) {
      case 'response.output_text.delta':
        return this.items.textDelta(json, 'text');
      case 'response.function_call_arguments.delta':
      case 'response.custom_tool_call_input.delta':
        return this.items.argumentsDelta(json);
      case 'response.reasoning_summary_text.delta':
        return this.items.reasoning(json, 'summary', json.delta);
      case 'response.reasoning_text.delta':
        return this.items.reasoning(json, 'thought', json.delta);
      case 'response.refusal.delta':
        return this.items.textDelta(json, 'refusal');
    }
  }

  /** Handles an error or a whole response in place of a stream, which some hosts and proxies send. */
  private untyped(json: JsonObject): void {
    if (json.object === 'response' && Array.isArray(json.output))
      return this.final(json, asText(json.status) ?? 'completed');
    if (json.type === undefined && (asObject(json.error) ?? asText(json.error)) !== undefined)
      this.builder.error(eventError(json));
  }

  private start(response: JsonObject): void {
    if (Array.isArray(response.tools)) this.items.tools = response.tools;
    if (!this.builder.hasStarted) this.startTier = serviceTier(response);
    this.builder.start({
      id: asText(response.id) ?? '',
      model: asText(response.model) ?? '',
      createdAt: asUnixTime(response.created_at),
      serviceTier: serviceTier(response),
    });
  }

  private final(response: JsonObject, status: string): void {
    this.start(response);
    if (status === 'failed' || status === 'cancelled' || response.status === 'failed') {
      this.builder.error(responseError(response));
      return;
    }
    this.items.reconcile(response);
    const said = response.status === undefined ? { ...response, status } : response;
    this.builder.finish(0, finishOf(said, this.items.hasCalls));
    const extras = responseExtras(response);
    if (extras !== undefined) this.builder.extras(extras);
    const tier = serviceTier(response);
    if (tier !== undefined && tier !== this.startTier)
      this.builder.extras({ 'openai-responses': { service_tier: tier } });
    const usage = decodeOpenAiUsage(response.usage);
    if (usage !== undefined) this.builder.usage(usage);
    this.builder.complete();
  }
}

/** The Responses API on the provider side. */
export const openAiResponsesProvider: ChatProviderCodec = {
  encodeRequest,
  decodeAnswer,
  eventReader: createEventReader,
  decodeError: decodeOpenAiError,
};

const tokenCount = countTokensOperation(anthropicClient, responsesTokenCounting);

/** A host whose chat is the Responses API; its other endpoints are those of OpenAI. */
export const openAiResponsesHost: ProviderDialect = {
  name: 'openai-responses',
  plan(call) {
    if (call.endpoint === 'messages.count_tokens') return { kind: 'operation', codec: tokenCount };
    if (call.endpoint === 'responses') return passOn(call);
    return translated(call, openAiResponsesProvider) ?? passOn(call);
  },
};
