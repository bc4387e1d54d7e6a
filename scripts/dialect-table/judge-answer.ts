import { readFileSync } from 'node:fs';
import type {
  AnswerContext,
  ChatClientCodec,
  DecodeContext,
} from '../../core/dialects/canonical/chat-codec.ts';
import type { JsonObject } from '../../core/dialects/canonical/chat-part.ts';
import type { AnswerFeature } from './answer-feature.ts';
import { askedModels, endpoints, type Pair } from './judge-request.ts';
import { plainRequests } from './request-feature.ts';

/** Fate of a part of an answer: `when not strict` needs `strict_openai_compliance: false`. */
type AnswerFate = 'as is' | 'kept' | 'when not strict' | 'dropped' | '–';

const fixtures = new URL('../../tests/fixtures/wire/', import.meta.url);

/** Fate of the feature for a client; `–` when this provider's wire does not have it. */
export function answerFateOf(pair: Pair, feature: AnswerFeature): AnswerFate {
  const body = fixture(pair.host.name, feature.fixture);
  if (body === undefined || !feature.marker.test(body.toString())) return '–';
  const { ingress, client, host } = pair;
  const model = askedModels[host.name]?.[1] ?? 'm';
  const facts = { provider: 'p', model, quirks: {}, usageInStream: 'on_request' as const, settings: {} };
  const [endpoint, path] = endpoints[ingress];
  const call = { endpoint, path, spoken: client.name, method: 'POST', query: '', stream: false, host: facts };
  const plan = host.plan(call);
  if (plan.kind === 'pass') return 'as is';
  const codec: ChatClientCodec | undefined = client.chat;
  if (plan.kind !== 'chat' || codec === undefined) return '–';
  const include: JsonObject =
    ingress === 'openai-responses' ? { include: ['reasoning.encrypted_content'] } : {};
  const request = codec.decodeRequest({
    body: { model, ...plainRequests[ingress], ...include },
    model,
    stream: false,
    query: '',
    header: () => undefined,
  });
  const isHeard = (strict: boolean): boolean => {
    let ids = 0;
    const context: AnswerContext & DecodeContext = {
      request,
      query: '',
      strict,
      provider: 'p',
      requestId: 'r',
      now: 1_763_700_000,
      newId: (prefix) => `${prefix}${ids++}`,
    };
    const answer = plan.codec.decodeAnswer(body, context);
    return feature.marker.test(codec.encodeAnswer(answer, context).toString());
  };
  if (isHeard(true)) return 'kept';
  return isHeard(false) ? 'when not strict' : 'dropped';
}

function fixture(dialect: string, name: string): Buffer | undefined {
  try {
    return readFileSync(new URL(`${dialect}/grid-${name}.json`, fixtures));
  } catch {
    return undefined;
  }
}
