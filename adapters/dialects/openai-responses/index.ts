import type { Dialect, AnswerFacts, AnswerTextPlace } from '../../../core/dialects/dialect.ts';
import { writeSseFrame } from '../../../core/base/sse.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { FrameScanner, type Watch, watch, type EventReader } from '../frame-scanner.ts';
import {
  asBuffer,
  type JsonObject,
  parseObject,
  stringifyExact,
  asText,
  asObject,
  asArray,
} from '../json-reading.ts';
import { openAiErrors } from '../openai-shapes.ts';
import { bodyIssues } from '../request-members.ts';
import { dialect, finalEvents, responseParts } from './answer.ts';
import { responsesRequest } from './decode-request.ts';
import { responsesFrames } from './frame-rewriter.ts';
import { answerEvents } from '../../../core/dialects/canonical/answer-events.ts';
import type { ChatAnswer, Finish, ProviderError } from '../../../core/dialects/canonical/chat-answer.ts';
import {
  type AnswerContext,
  type ChatClientCodec,
  type ChatEventWriter,
  EncodeReport,
} from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import { SequentialParts } from '../../../core/dialects/canonical/sequential-parts.ts';
import { EventLines, OutputWriter } from './output-writer.ts';
import type { Extras } from '../../../core/dialects/canonical/chat-part.ts';
import { mergeExtras } from '../../../core/dialects/canonical/collect-answer.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { requestTools } from './encode-request.ts';

/** The Responses API on the client side. */
export const openAiResponsesClient: ChatClientCodec = {
  decodeRequest: responsesRequest.decode,
  encodeAnswer,
  eventWriter: (context) => new ResponsesEventWriter(context),
  encodeProviderError: (error, { provider }) => Buffer.from(openAiErrors.encodeProvider(error, provider)),
};

/** The response object assembled from the events of the answer. */
function encodeAnswer(answer: ChatAnswer, context: AnswerContext): Buffer {
  const writer = new ResponseWriter(context, new EventLines());
  for (const event of answerEvents(answer))
    if (!('choice' in event) || event.choice === 0) writer.write(event);
  return Buffer.from(stringifyExact(writer.response()));
}

class ResponsesEventWriter implements ChatEventWriter {
  readonly contentType = 'text/event-stream';
  private readonly sequence = new SequentialParts();
  private readonly lines = new EventLines();
  private readonly writer: ResponseWriter;

  constructor(context: AnswerContext) {
    this.writer = new ResponseWriter(context, this.lines);
  }

  write(events: readonly ChatEvent[]): Buffer | undefined {
    for (const event of events) for (const ready of this.sequence.push(event)) this.writer.write(ready);
    const text = this.lines.take();
    return text === '' ? undefined : Buffer.from(text);
  }
}

/** The OpenAI Responses wire on the client side. */
export const openAiResponses: Dialect = {
  name: 'openai-responses',
  validateRequest: (_endpoint, body) => bodyIssues.body(body),
  decodeConversation: responsesRequest.decodeConversation,
  decodeAnswerTexts,
  chat: openAiResponsesClient,
  scanAnswer(_endpoint, body) {
    const response = parseObject(asBuffer(body).toString('utf8'));
    return response === undefined ? {} : responseParts.facts(response);
  },
  streamScanner: () => new FrameScanner(new ResponsesStreamReader(), watchedMembers),
  frames: responsesFrames,
  encodeError: openAiErrors.encode,
  encodeStreamError(error) {
    const members = openAiErrors.members(error);
    const { message, param, code } = members;
    // The documented event is flat; SDKs end a stream at an `error` member.
    return writeSseFrame(openAiErrors.json({ type: 'error', code, message, param, error: members }), 'error');
  },
};

type StartEvent = Extract<ChatEvent, { type: 'start' }>;

/** Status of the response for a finish. */
interface Outcome {
  readonly status: 'completed' | 'incomplete' | 'failed';
  /** Reason of an incomplete response. */
  readonly reason?: string;
}

/**
 * Writes an answer as the events of a Responses stream into `lines`, and keeps the resulting response object. Events of
 * different parts must not interleave.
 */
class ResponseWriter {
  private readonly context: AnswerContext;
  private readonly lines: EventLines;
  private readonly output: OutputWriter;
  private envelope: JsonObject | undefined;
  private outcome: Outcome = { status: 'completed' };
  private usage: Usage | undefined;
  private extras: Extras | undefined;
  private error: ProviderError | undefined;

  constructor(context: AnswerContext, lines: EventLines) {
    this.context = context;
    this.lines = lines;
    this.output = new OutputWriter(lines, context.newId);
  }

  write(event: ChatEvent): void {
    switch (event.type) {
      case 'start':
        return this.start(event);
      case 'finish':
        this.outcome = outcomeOf(event.finish);
        return this.output.finish(this.outcome.status);
      case 'usage':
        this.usage = event.usage;
        return;
      case 'extras':
        this.extras = mergeExtras(this.extras, event.extras);
        return;
      case 'error':
        return this.fail(event.error);
      case 'end':
        return this.lines.add(`response.${this.outcome.status}`, { response: this.response() });
      default:
        return this.output.write(event);
    }
  }

  /** The response so far. */
  response(): JsonObject {
    const { status, reason } = this.outcome;
    return {
      ...this.extras?.[dialect],
      ...(this.envelope ?? this.begin({ type: 'start', id: '', model: '' })),
      status,
      ...(status === 'completed' && { completed_at: this.context.now }),
      error: this.error === undefined ? null : { code: codeOf(this.error), message: this.error.message },
      incomplete_details: reason === undefined ? null : { reason },
      output: this.output.items,
      usage: this.usage === undefined ? null : responseParts.usage(this.usage),
      ...tierOf(this.extras),
    };
  }

  private start(event: StartEvent): void {
    this.usage ??= event.usage;
    const response = this.begin(event);
    this.lines.add('response.created', { response });
    this.lines.add('response.in_progress', { response });
  }

  private begin({ id, model, createdAt, serviceTier }: StartEvent): JsonObject {
    const { newId, now, request } = this.context;
    this.envelope = responseEnvelope(
      {
        id: id.startsWith('resp_') ? id : newId('resp_'),
        model: model === '' ? request.model : model,
        createdAt: createdAt ?? now,
        serviceTier,
      },
      this.context,
    );
    return this.envelope;
  }

  /**
   * SDKs end a stream with an error when an event has an `error` member; other clients read the failed response after
   * it.
   */
  private fail(error: ProviderError): void {
    if (this.envelope === undefined) this.start({ type: 'start', id: '', model: '' });
    const { message, param } = error;
    const members = {
      message,
      type: error.type ?? 'upstream_error',
      param: param ?? null,
      code: error.code ?? null,
    };
    const { provider } = this.context;
    this.lines.add('error', { code: members.code, message, param: members.param, error: members, provider });
    this.error = error;
    this.outcome = { status: 'failed' };
    this.output.finish('failed');
    this.lines.add('response.failed', { response: this.response() });
  }
}

function outcomeOf({ reason, raw }: Finish): Outcome {
  switch (reason) {
    case 'length':
      return { status: 'incomplete', reason: 'max_output_tokens' };
    case 'content-filter':
      return { status: 'incomplete', reason: 'content_filter' };
    case 'pause':
      return { status: 'incomplete', reason: raw === '' ? 'pause' : raw };
    case 'error':
      return { status: 'failed' };
    default:
      return { status: 'completed' };
  }
}

function codeOf({ code, status }: ProviderError): string {
  return code ?? (status === 429 ? 'rate_limit_exceeded' : 'server_error');
}

/** The tier at the end of a stream is the one that served it. */
function tierOf(extras: Extras | undefined): JsonObject {
  const tier = extras?.[dialect]?.service_tier;
  return tier === undefined ? {} : { service_tier: tier };
}

/** Data of a response at its start. */
interface ResponseHead {
  readonly id: string;
  readonly model: string;
  readonly createdAt: number;
  readonly serviceTier: string | undefined;
}

/**
 * A response object in progress: its head, and the settings of the request in the form in which the API repeats them.
 * Settings left to the provider are null where the wire allows it. `store` tells whether the gateway stores it.
 */
function responseEnvelope(head: ResponseHead, { request, kept }: AnswerContext): JsonObject {
  return {
    id: head.id,
    object: 'response',
    created_at: head.createdAt,
    status: 'in_progress',
    background: false,
    error: null,
    incomplete_details: null,
    instructions: instructionsOf(request),
    max_output_tokens: request.maxOutputTokens ?? null,
    max_tool_calls: null,
    model: head.model,
    output: [],
    parallel_tool_calls: request.parallelToolCalls ?? true,
    previous_response_id: kept?.previousResponseId ?? null,
    prompt_cache_key: request.promptCacheKey ?? null,
    reasoning: { effort: request.reasoning?.effort ?? null, summary: request.reasoning?.summary ?? null },
    safety_identifier: request.safetyIdentifier ?? null,
    service_tier: head.serviceTier ?? request.serviceTier ?? null,
    store: kept !== undefined,
    temperature: request.temperature ?? null,
    text: textOf(request),
    tool_choice:
      request.toolChoice === undefined ? 'auto' : requestTools.choice(request.toolChoice, request.tools),
    tools: requestTools.list(request.tools, new EncodeReport()),
    top_logprobs: request.topLogprobs ?? 0,
    top_p: request.topP ?? null,
    truncation: 'disabled',
    usage: null,
    user: request.user ?? null,
    metadata: request.metadata ?? {},
  };
}

function instructionsOf({ messages }: ChatRequest): string | null {
  const [first] = messages;
  const [part] = first?.parts ?? [];
  return first?.role === 'system' && first.parts.length === 1 && part?.type === 'text' ? part.text : null;
}

function textOf({ responseFormat, verbosity }: ChatRequest): JsonObject {
  const text: JsonObject = { format: requestTools.format(responseFormat ?? { type: 'text' }) };
  if (verbosity !== undefined) text.verbosity = verbosity;
  return text;
}

/** Members that cause a frame to be parsed after the first token. */
const watchedMembers: readonly Watch[] = [
  watch('usage', 'object'),
  watch('error', 'anything but null'),
  // The event that ends a stream carries the whole response; it may lack the usage.
  watch('response', 'object'),
];

/** Collects usage, model, finish and errors from the events of a Responses stream. */
class ResponsesStreamReader implements EventReader {
  readonly facts: AnswerFacts = {};
  ended = false;

  read(json: JsonObject, event: string): boolean {
    const type = asText(json.type) ?? event;
    const response = asObject(json.response);
    if (response !== undefined) Object.assign(this.facts, responseParts.facts(response));
    const errorMessage = openAiErrors.message(json, event);
    if (errorMessage !== undefined) this.facts.errorMessage = errorMessage;
    if (finalEvents.has(type)) this.ended = true;
    return type.endsWith('.delta') && asText(json.delta) !== undefined;
  }
}

type Path = AnswerTextPlace['path'];

/** The generated texts of a complete response. */
function decodeAnswerTexts(_endpoint: EndpointId, answer: unknown): readonly AnswerTextPlace[] {
  let calls = 0;
  return asArray(asObject(answer)?.output).flatMap((value, i) => {
    const item = asObject(value) ?? {};
    const path = ['output', i];
    const member = callMembers[asText(item.type) ?? ''];
    if (member === undefined) return itemTexts(item, path);
    const { name, [member]: text } = item;
    if (typeof text !== 'string') return [];
    return [
      {
        type: 'tool-arguments' as const,
        choice: 0,
        call: calls++,
        text,
        path: [...path, member],
        ...(typeof name === 'string' ? { name } : {}),
        beside: [],
      },
    ];
  });
}

const callMembers: Readonly<Record<string, string>> = {
  function_call: 'arguments',
  custom_tool_call: 'input',
};

/** The summary of a thought precedes the thought. */
function itemTexts(item: JsonObject, path: Path): readonly AnswerTextPlace[] {
  // The encrypted content of a thought holds the thought as well.
  const proof = { path: [...path, 'encrypted_content'], value: null } as const;
  const proofs = typeof item.encrypted_content === 'string' ? [proof] : [];
  return ['summary', 'content'].flatMap((list) =>
    asArray(item[list]).flatMap((value, i): readonly AnswerTextPlace[] => {
      const part = asObject(value) ?? {};
      const at = [...path, list, i];
      const member = part.type === 'refusal' ? 'refusal' : 'text';
      const text = part[member];
      if (typeof text !== 'string') return [];
      const isThought = part.type === 'summary_text' || part.type === 'reasoning_text';
      const beside = ['annotations', 'logprobs']
        .filter((name) => Array.isArray(part[name]))
        .map((name) => ({ path: [...at, name], value: [] }));
      return [
        {
          type: isThought ? 'reasoning' : 'text',
          choice: 0,
          text,
          path: [...at, member],
          beside: [...beside, ...proofs],
        },
      ];
    }),
  );
}
