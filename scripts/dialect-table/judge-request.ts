import { EncodeReport } from '../../core/dialects/canonical/chat-codec.ts';
import type { JsonObject } from '../../core/dialects/canonical/chat-part.ts';
import type { Dialect, ProviderDialect } from '../../core/dialects/dialect.ts';
import type { DialectName, EndpointId } from '../../core/dialects/endpoint.ts';
import type { HostFacts } from '../../core/dialects/host-facts.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { plainRequests, type Ingress, type RequestFeature } from './request-feature.ts';

/**
 * Fate of a feature: `as is` (the client's bytes pass), `kept`, `emulated` (expressed by other means, reported as
 * such), `partly` (a part is reported as dropped), `dropped` (reported), `refused` (the request is), `–` (the client's
 * wire cannot express it), `LOST` (neither sent nor reported: a defect).
 */
type Fate = 'as is' | 'kept' | 'emulated' | 'partly' | 'dropped' | 'refused' | '–' | 'LOST';

/** Requested models by the provider's wire: one for everything, one that thinks. */
export const askedModels: Readonly<Partial<Record<DialectName, readonly [string, string]>>> = {
  'openai-chat': ['gpt-4.1', 'gpt-5.1'],
  'openai-responses': ['gpt-4.1', 'gpt-5.1'],
  'azure-openai': ['gpt-4.1', 'gpt-5.1'],
  'anthropic-messages': ['claude-opus-4-6', 'claude-opus-4-6'],
  'google-gemini': ['gemini-2.5-flash', 'gemini-2.5-flash'],
  'google-vertex': ['gemini-2.5-flash', 'gemini-2.5-flash'],
  'bedrock-converse': ['anthropic.claude-opus-4-6-v1', 'anthropic.claude-opus-4-6-v1'],
  'cohere-v2': ['command-a-03-2025', 'command-a-reasoning-08-2025'],
  'workers-ai': ['@cf/openai/gpt-oss-120b', '@cf/openai/gpt-oss-120b'],
};

/** Endpoint and path of each client's wire. */
export const endpoints: Readonly<Record<Ingress, readonly [EndpointId, string]>> = {
  'openai-chat': ['chat.completions', '/chat/completions'],
  'openai-responses': ['responses', '/responses'],
  'anthropic-messages': ['messages', '/messages'],
  'google-gemini': ['generate-content', '/models/m:generateContent'],
  'openai-completions': ['completions', '/completions'],
};

interface Encoding {
  /** Path, headers and body of the provider's request. */
  readonly text: string;
  readonly dropped: readonly string[];
  readonly emulated: readonly string[];
}

/** A client's wire and a provider's wire. */
export interface Pair {
  readonly ingress: Ingress;
  readonly client: Dialect;
  readonly host: ProviderDialect;
}

/** Fate of a feature between the two. `base` is the feature that it extends. */
export function fateOf(pair: Pair, feature: RequestFeature, base: RequestFeature | undefined): Fate {
  const members = requestOf(pair, feature);
  if (members === undefined) return '–';
  const without = base === undefined ? {} : (requestOf(pair, base) ?? {});
  const model = modelOf(pair, feature);
  const encoding = encode(pair, members, model, feature.stream === true);
  if (typeof encoding === 'string') return encoding;
  const plain = encode(pair, without, model, false);
  if (typeof plain === 'string') return plain;
  const fate = compare(encoding, plain, feature);
  if (fate !== 'LOST') return fate;
  if (feature.inherent?.includes(pair.host.name) === true) return 'kept';
  // A part of a dropped feature is dropped with it.
  return base !== undefined && fateOf(pair, base, undefined) === 'dropped' ? 'dropped' : 'LOST';
}

function compare(encoding: Encoding, plain: Encoding, { marker }: RequestFeature): Fate {
  const isSaid = encoding.text !== plain.text && (marker === undefined || marker.test(encoding.text));
  if (encoding.dropped.some((name) => !plain.dropped.includes(name))) {
    return isSaid && marker !== undefined ? 'partly' : 'dropped';
  }
  if (encoding.emulated.some((name) => !plain.emulated.includes(name))) return 'emulated';
  return isSaid ? 'kept' : 'LOST';
}

function requestOf({ ingress, host }: Pair, feature: RequestFeature): JsonObject | undefined {
  const said = feature.said[ingress];
  return said === undefined ? undefined : { ...said, ...feature.saidTo?.(host.name) };
}

function modelOf({ host }: Pair, { thinks }: RequestFeature): string {
  return askedModels[host.name]?.[thinks === true ? 1 : 0] ?? 'm';
}

function encode(
  { ingress, client, host }: Pair,
  members: JsonObject,
  model: string,
  stream: boolean,
): Encoding | 'as is' | 'refused' {
  const facts: HostFacts = {
    provider: 'p',
    model,
    quirks: {},
    usageInStream: 'on_request',
    settings: {
      vertex_project_id: 'p',
      vertex_region: 'europe-west1',
      azure_resource_name: 'r',
      workers_ai_account_id: 'a',
    },
  };
  const [endpoint, path] = endpoints[ingress];
  const call = { endpoint, path, spoken: client.name, method: 'POST', query: '', stream, host: facts };
  const plan = host.plan(call);
  if (plan.kind === 'pass') return 'as is';
  if (plan.kind !== 'chat' || client.chat === undefined) return 'refused';
  const report = new EncodeReport();
  try {
    const body = { model, ...plainRequests[ingress], ...members };
    const request = client.chat.decodeRequest({ body, model, stream, query: '', header: () => undefined });
    const encoded = plan.codec.encodeRequest(request, facts, report);
    const text = `${encoded.path}\n${encoded.headers?.join('\n') ?? ''}\n${encoded.body.toString()}`;
    return { text, dropped: report.dropped, emulated: report.emulated };
  } catch (error) {
    if (GatewayError.is(error)) return 'refused';
    throw error;
  }
}
