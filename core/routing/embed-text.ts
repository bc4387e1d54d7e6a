import { type EncodedRequest, EncodeReport } from '../dialects/canonical/chat-codec.ts';
import type { OperationCodec } from '../dialects/upstream-plan.ts';
import { matchEndpoint } from '../dialects/match-endpoint.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { ChangedBody } from '../pipeline/request-body.ts';
import type { JsonObject, JsonValue } from '../pipeline/context.ts';
import { parseJson } from '../base/json.ts';
import type { Clock } from '../ports/clock.ts';
import type { EmbeddingSettings, Embeddings } from '../ports/cache.ts';
import { headerValue } from '../ports/header-list.ts';
import type { Metrics } from '../ports/metrics.ts';
import type { Target } from '../pipeline/router.ts';
import type { Transport, UpstreamRequest } from '../ports/transport.ts';
import { authorized } from './credentials.ts';
import { collectUpstream } from './collected-answer.ts';
import { hostFacts, planCall, type PlannedCall, type ProviderDialects } from './upstream-request.ts';
import type { KnownProvider } from './targets.ts';

/** Upper bound of an answer, in bytes: a vector of 4,096 numbers is below 100 KB. */
const maxAnswerBytes = 1_048_576;
/** Upper bound of a vector's length, in numbers. */
const maxDimensions = 16_384;

/** Options of `createEmbeddings`. */
interface EmbeddingsSetup {
  /** As `compileTargets` returns them. */
  readonly known: ReadonlyMap<string, KnownProvider>;
  readonly transport: Transport;
  /** The provider's side of every dialect. */
  readonly wires: ProviderDialects;
  readonly clock: Clock;
  readonly metrics: Metrics;
}

/** Embeds texts through the configured providers, in their own dialects, with the credentials of the gateway. */
export function createEmbeddings(setup: EmbeddingsSetup): Embeddings {
  const tokens = setup.metrics.counter({
    name: 'weir_embedding_tokens_total',
    help: 'Tokens of embeddings that the gateway itself requested, as reported by the providers.',
    labels: ['provider', 'model'],
  });
  return {
    problem({ provider, model }) {
      try {
        prepare('', { provider, model, timeoutMs: 0 }, setup);
        return undefined;
      } catch (error) {
        if (GatewayError.is(error)) return error.message;
        throw error;
      }
    },
    async embed(text, settings) {
      const { provider, model, timeoutMs } = settings;
      const { target, request, read } = prepare(text, settings, setup);
      const giveUp = new AbortController();
      const late = new GatewayError(
        'upstream_timeout',
        `The provider "${provider}" made no vector within ${timeoutMs} ms.`,
      );
      let stopTimer: (() => void) | undefined;
      const timeout = new Promise<never>((_, reject) => {
        stopTimer = setup.clock.after(timeoutMs, () => {
          giveUp.abort(late);
          reject(late);
        });
      });
      try {
        const made = await Promise.race([send(request, target, setup.transport, giveUp.signal), timeout]);
        const { vector, usedTokens } = read(made);
        if (usedTokens > 0) tokens({ provider, model }).inc(usedTokens);
        return vector;
      } finally {
        stopTimer?.();
      }
    },
  };
}

interface Prepared {
  readonly target: Target;
  readonly request: UpstreamRequest;
  read(answer: { readonly body: Buffer; readonly contentType: string }): {
    readonly vector: Float32Array;
    readonly usedTokens: number;
  };
}

/** The call and the reader of its answer. Throws the error that prevents it. */
function prepare(
  text: string,
  { provider, model, timeoutMs }: EmbeddingSettings,
  setup: EmbeddingsSetup,
): Prepared {
  const known = setup.known.get(provider);
  if (known === undefined) {
    throw new GatewayError(
      'provider_unknown',
      `There is no provider "${provider}" to embed texts with. Define it under providers: in the configuration.`,
    );
  }
  const { target } = known;
  const host = hostFacts(target, model);
  const plan = planCall(embeddingsCall, target, host, setup.wires);
  const body: JsonObject = { model, input: text };
  if (plan.kind === 'chat') {
    throw new GatewayError(
      'not_supported',
      `The provider "${provider}" makes no embeddings. Name another one.`,
    );
  }
  if (plan.kind === 'operation') {
    const { codec } = plan;
    const encoded = codec.encodeRequest(body, host, new EncodeReport());
    const request = upstreamRequest(target, encoded, timeoutMs);
    return { target, request, read: (answer) => readOperation(answer, codec, body, provider) };
  }
  const edited = new ChangedBody(wholeBody(body));
  plan.edit?.({
    get json() {
      return edited.json;
    },
    set: (path, value) => edited.set(path, value as JsonValue),
    remove: (path) => edited.remove(path),
  });
  const request = upstreamRequest(target, { path: plan.path, body: edited.bytes }, timeoutMs);
  return {
    target,
    request,
    read: ({ body: bytes }) => readDocument(parseJson(bytes.toString('utf8')), provider),
  };
}

const embeddingsCall: PlannedCall = {
  endpoint: matchEndpoint('POST', '/embeddings'),
  dialect: { name: 'openai-chat' },
  facts: { stream: false },
  method: 'POST',
  path: '/embeddings',
  query: '',
};

/** A body of the gateway itself, in the form that plans edit. */
function wholeBody(json: JsonObject): ConstructorParameters<typeof ChangedBody>[0] {
  const text = JSON.stringify(json);
  const bytes = Buffer.from(text, 'utf8');
  return { loaded: true, text, bytes, json, outgoing: bytes, hold: () => undefined };
}

function upstreamRequest(target: Target, encoded: EncodedRequest, timeoutMs: number): UpstreamRequest {
  const { path, body, contentType = 'application/json', headers = [] } = encoded;
  const own = ['content-type', contentType, 'accept', 'application/json', 'accept-encoding', 'identity'];
  return {
    origin: target.origin,
    guarded: target.guarded,
    method: 'POST',
    path: target.basePath + path,
    headers: [...target.headers, ...own, ...headers],
    body: typeof body === 'string' ? Buffer.from(body, 'utf8') : body,
    connectTimeoutMs: timeoutMs,
    headTimeoutMs: timeoutMs,
    idleTimeoutMs: timeoutMs,
  };
}

async function send(
  plain: UpstreamRequest,
  { credentials, provider }: Target,
  transport: Transport,
  signal: AbortSignal,
): Promise<{ readonly body: Buffer; readonly contentType: string }> {
  const request = credentials === undefined ? plain : await authorized(plain, credentials);
  if (signal.aborted) throw signal.reason as GatewayError;
  const { status, headers, body } = await collectUpstream(transport, request, maxAnswerBytes, signal);
  if (status === 200) return { body, contentType: headerValue(headers, 'content-type') ?? '' };
  throw new GatewayError(
    'provider_error',
    `The provider "${provider}" answered ${status} to a text to embed.`,
    {
      reported: { status },
    },
  );
}

function readOperation(
  { body, contentType }: { readonly body: Buffer; readonly contentType: string },
  codec: OperationCodec,
  asked: JsonObject,
  provider: string,
): ReturnType<Prepared['read']> {
  const answer = codec.decodeAnswer(body, contentType, asked);
  const { vector, usedTokens } = readDocument(answer.body, provider);
  return { vector, usedTokens: answer.usage?.totalTokens ?? usedTokens };
}

/** The first vector of an answer in the OpenAI shape. */
function readDocument(document: unknown, provider: string): ReturnType<Prepared['read']> {
  const data = member(document, 'data');
  const numbers = Array.isArray(data) ? member(data[0], 'embedding') : undefined;
  const counted = member(member(document, 'usage'), 'total_tokens');
  const usedTokens = typeof counted === 'number' ? counted : 0;
  if (isVector(numbers)) return { vector: Float32Array.from(numbers), usedTokens };
  throw new GatewayError('upstream_invalid', `The provider "${provider}" answered with no vector.`, {
    source: 'provider',
  });
}

function isVector(value: unknown): value is readonly number[] {
  if (!Array.isArray(value) || value.length === 0 || value.length > maxDimensions) return false;
  return value.every((number) => typeof number === 'number');
}

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}
