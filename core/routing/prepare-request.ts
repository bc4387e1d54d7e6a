import type { GatewayConfig } from '../config/schema.ts';
import { EncodeReport } from '../dialects/canonical/encode-report.ts';
import type { EndpointId } from '../dialects/endpoint.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import { runsNoModel } from '../pipeline/named-models.ts';
import type { Clock } from '../ports/clock.ts';
import type { LargeTranslation } from '../ports/large-translation.ts';
import type { Target } from '../pipeline/router.ts';
import { toldTrace } from '../base/trace-context.ts';
import {
  editedBody,
  passedRequest,
  sentBody,
  translatedRequest,
  type OutgoingRequest,
} from './build-request.ts';
import { isStrict } from './check-request.ts';
import { callFacts, hostFacts, planCall, type ProviderDialects } from './plan-call.ts';
import {
  bodyObject,
  translateChat,
  translateLargeChat,
  translateOperation,
  type Translation,
} from './translation.ts';
import type { TryParts } from './try-parts.ts';

/** What preparing requests needs beside their parts; one per generation. */
export interface PrepareSetup {
  readonly config: GatewayConfig;
  readonly wires: ProviderDialects;
  readonly clock: Clock;
  /** Absent: large requests are translated beside others. */
  readonly largeTranslation?: LargeTranslation | undefined;
}

/** Operations whose bodies flow by unread, unless their host wants them in another shape. */
const translatable: ReadonlySet<EndpointId> = new Set(['images.generations', 'audio.speech']);

/** The body has to be in memory: it is signed, said in other words, or changed by the config. */
export function needsBody(exchange: Exchange, { target, params }: TryParts): boolean {
  const { endpoint, body, method, path, upgrade } = exchange;
  if (!body.present) return false;
  const naming = { method, path, isUpgrade: upgrade !== undefined };
  if (target.signsBody) return true;
  // The model that it names has to be allowed.
  if (target.models?.isRestricted === true && !runsNoModel(naming)) return true;
  return translatable.has(endpoint.id) && (target.dialect !== 'openai-chat' || params !== undefined);
}

/** A request ready to go out. */
export interface PreparedRequest {
  readonly outgoing: OutgoingRequest;
  /** Undefined: the bytes are passed on both ways. */
  readonly translation: Translation | undefined;
}

/** The request as its target wants it; a promise for a large one that is translated. Throws what the target cannot be asked. */
export function prepareRequest(
  parts: TryParts,
  { config, wires, clock, largeTranslation }: PrepareSetup,
): PreparedRequest | Promise<PreparedRequest> {
  const { exchange, target, options } = parts;
  const { facts } = exchange;
  if (translatable.has(exchange.endpoint.id) && exchange.body.loaded) {
    const model = bodyObject(sentBody(exchange).json)['model'];
    facts.modelRequested = typeof model === 'string' ? model : '';
  }
  const host = hostFacts(target, facts.modelRequested);
  const plan = planCall(exchange, target, host, wires);
  const { header_prefix: prefix } = config.server;
  const { propagate, otlp } = config.telemetry;
  const trace = propagate ? toldTrace(facts, exchange.id, otlp) : undefined;
  if (plan.kind === 'pass') {
    let body = sentBody(exchange);
    if (plan.edit !== undefined && body.loaded) {
      const report = new EncodeReport();
      body = editedBody(exchange, plan.edit, report);
      reportDropped(parts, report.dropped, prefix);
    } else if (facts.dropped.length > 0) {
      // What an earlier target could not be told, this one is told.
      reportDropped(parts, nothingDropped, prefix);
    }
    return { outgoing: passedRequest(parts, plan.path, body, trace), translation: undefined };
  }
  const translating = {
    exchange,
    host,
    body: bodyObject(sentBody(exchange).json),
    strict: isStrict(exchange, options.strictOpenAiCompliance),
    now: clock.now(),
  };
  const translated = (translation: Translation): PreparedRequest => {
    reportDropped(parts, translation.report.dropped, prefix);
    return { outgoing: translatedRequest(parts, translation, trace), translation };
  };
  if (plan.kind !== 'chat') return translated(translateOperation(translating, plan.codec));
  if (sentBody(exchange).large !== undefined) {
    const chat = { body: sentBody(exchange).bytes, target: target.dialect, headers: exchange.headers };
    const large = { chat: { ...chat, call: callFacts(exchange, host) }, translation: largeTranslation };
    return translateLargeChat(translating, plan.codec, large).then(translated);
  }
  return translated(translateChat(translating, plan.codec));
}

const nothingDropped: readonly string[] = [];

/** Tells the client and the log what the target's wire cannot say, or refuses the request for it. */
function reportDropped({ exchange, target, options }: TryParts, dropped: readonly string[], prefix: string) {
  exchange.facts.dropped = dropped;
  const header = `${prefix}-dropped`;
  if (dropped.length === 0) {
    exchange.replaceResponseHeader(header, undefined);
    return;
  }
  if (onDropOf(target, options) === 'refuse') {
    throw new GatewayError(
      'not_supported',
      `The provider "${target.provider}" cannot be told ${dropped.join(', ')}. Leave it out, name another provider, or set on_drop: report.`,
      { param: dropped[0] as string },
    );
  }
  exchange.replaceResponseHeader(header, dropped.join(', ').replace(/[^\x20-\x7e]/g, '?'));
}

/** What happens where a target cannot be told all that is asked: what the config says, the provider, the plugin. */
export function onDropOf(target: Target, { configOnDrop, onDrop }: TryParts['options']): 'report' | 'refuse' {
  return configOnDrop ?? target.onDrop ?? onDrop;
}
