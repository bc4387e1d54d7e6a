import type {
  AttemptContext,
  AttemptView,
  Outcome,
  RequestContext,
  ResponseContext,
  ResponseView,
} from '../../pipeline/context.ts';
import { judged } from '../../pipeline/keys.ts';
import type { Answer } from '../../pipeline/answer.ts';
import type { Capabilities } from '../../pipeline/plugin.ts';
import { type HookReturn, type Operation, type SentContext, toldError } from './messages.ts';

/** Parts of a request and its answer that a plugin declares to look at: these alone are sent to its thread. */
export class PluginSight {
  readonly #body: boolean;
  readonly #texts: boolean;
  readonly #answerTexts: boolean;

  constructor({ reads = [], changes = [] }: Capabilities) {
    const parts = [...reads, ...changes];
    this.#body = parts.some((part) => part.startsWith('request.'));
    this.#texts = parts.includes('request.text');
    this.#answerTexts = parts.includes('response.text');
  }

  /** A request as plain data. */
  request(context: RequestContext): SentContext {
    const { facts, body } = context;
    const isVisible = this.#body && body.loaded;
    return {
      id: context.id,
      startedAt: context.startedAt,
      method: context.method,
      path: context.path,
      originalPath: context.originalPath,
      query: context.query,
      headers: context.headers,
      service: Object.fromEntries(context.serviceNames().map((name) => [name, context.service(name) ?? ''])),
      remoteAddress: context.remoteAddress,
      endpoint: context.endpoint,
      generation: context.generation,
      facts: {
        organisationId: facts.organisationId,
        workspaceId: facts.workspaceId,
        apiKeyId: facts.apiKeyId,
        userId: facts.userId,
        aiService: facts.aiService,
        provider: facts.provider,
        modelRequested: facts.modelRequested,
        modelAnswered: facts.modelAnswered,
        stream: facts.stream,
        config: facts.config,
        cacheStatus: facts.cacheStatus,
        attempts: facts.attempts,
        usage: facts.usage,
        finishReason: facts.finishReason,
        metadata: facts.metadata,
        traceId: facts.traceId,
        spanId: facts.spanId,
        parentSpanId: facts.parentSpanId,
      },
      body: { present: body.present, bytes: isVisible ? copyOf(body.bytes) : undefined },
      texts: this.#texts && body.loaded ? context.conversation.texts : undefined,
      models: isVisible ? context.models : undefined,
    };
  }

  /** The same for an attempt hook. */
  attempt(context: AttemptContext): SentContext {
    const { attempt } = context;
    return { ...this.request(context), attempt: this.#attempt(attempt) };
  }

  #attempt(attempt: AttemptView): NonNullable<SentContext['attempt']> {
    const { body } = attempt;
    return {
      number: attempt.number,
      provider: attempt.provider,
      aiService: attempt.aiService,
      model: attempt.model,
      deployment: attempt.deployment,
      target: attempt.target,
      terms: attempt.terms,
      isStrict: attempt.isStrict,
      clientHeaders: attempt.clientHeaders,
      body: { present: body.loaded, bytes: this.#body && body.loaded ? copyOf(body.bytes) : undefined },
    };
  }

  /** The same for a response hook. */
  response(context: ResponseContext): SentContext {
    const { response } = context;
    return {
      ...this.request(context),
      response: {
        status: response.status,
        headers: response.headers,
        bytes: copyOf(response.bytes),
        source: response.source,
        streamed: response.streamed,
        texts: this.#answerTexts ? response.texts : [],
      },
    };
  }

  /** The same for a settled hook. */
  outcome(context: RequestContext, outcome: Outcome): SentContext {
    const { kind, status, latencyMs, error, responseBody } = outcome;
    return {
      ...this.request(context),
      outcome: {
        kind,
        status,
        latencyMs,
        error: error && toldError(error),
        responseBody: responseBody && copyOf(responseBody),
        responseTruncated: outcome.responseTruncated,
        responseContentType: outcome.responseContentType,
        responseContentEncoding: outcome.responseContentEncoding,
      },
    };
  }
}

/** Only these bytes: a `Buffer` may lie in a shared memory block, which would be copied as a whole. */
function copyOf(bytes: Buffer): Uint8Array {
  return new Uint8Array(bytes);
}

/** Where changes of a hook go. */
interface Changed {
  readonly context: RequestContext;
  readonly attempt?: AttemptView;
  readonly response?: ResponseView;
}

/** Makes the changes of a hook, in its order, and returns its answer. */
export function applyReturn({ operations, answer }: HookReturn, changed: Changed): Answer | undefined {
  for (const operation of operations) apply(operation, changed);
  if (answer === undefined) return undefined;
  const { body } = answer;
  return {
    ...answer,
    body: body === null ? null : Buffer.from(body.buffer, body.byteOffset, body.byteLength),
  };
}

function apply(operation: Operation, { context, attempt, response }: Changed): void {
  if ('judged' in operation) context.set(judged, operation.judged);
  else if ('add' in operation) context.addResponseHeader(operation.add, operation.value);
  else if ('requestHeader' in operation) context.setHeader(operation.requestHeader, operation.value);
  else if ('replace' in operation) context.replaceResponseHeader(operation.replace, operation.value);
  else if ('status' in operation) {
    if (response !== undefined) response.status = operation.status;
  } else if ('header' in operation) {
    if (operation.value === undefined) response?.removeHeader(operation.header);
    else response?.setHeader(operation.header, operation.value);
  } else if ('texts' in operation) {
    let index = 0;
    response?.setTexts(({ text }) => operation.texts.get(index++) ?? text);
  } else {
    const target = { body: context.body, attempt: attempt?.body, response }[operation.on];
    if ('remove' in operation) target?.remove(operation.remove);
    else target?.set(operation.set, operation.value);
  }
}
