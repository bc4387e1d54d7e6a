import type { GatewayError } from '../errors/gateway-error.ts';
import { isStreamSource, type Answer, type StreamSource } from '../pipeline/answer.ts';
import { ChangedBody } from '../pipeline/attempt-body.ts';
import { isPromise, type HookRuntime } from '../pipeline/call-hook.ts';
import { clientLeft } from '../pipeline/client-left.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import type { RequestFacts } from '../pipeline/facts.ts';
import type { Counters } from '../ports/counters.ts';
import type { LimitCharges } from '../access/limit-charge.ts';
import type { Transport, UpstreamRequest } from '../ports/transport.ts';
import { HeldStream } from './attempts/held-stream.ts';
import { settleTargetLimits, takeTargetLimits } from './attempts/target-limits.ts';
import { runAttemptedHooks } from './attempted-hooks.ts';
import { authorized } from './authorize.ts';
import { asksForOutput, batchOutput } from './batch-output.ts';
import { sentBody } from './build-request.ts';
import { checkRequest } from './check-request.ts';
import { CurrentAttempt, runAttemptHooks } from './current-attempt.ts';
import { applyParams } from './apply-params.ts';
import { needsBody, prepareRequest, type PreparedRequest, type PrepareSetup } from './prepare-request.ts';
import { sendRequest, type Sending } from './send-request.ts';
import { translatedAnswer } from './translated-answer.ts';
import type { Translation } from './translation.ts';
import { allowedModel, forItsModel } from './stored-try.ts';
import type { TryParts } from './try-parts.ts';
import { queryModel, sendUpgrade } from './upgrade.ts';

/** What tries need beside their parts; one per generation. */
export interface TrySetup extends PrepareSetup {
  readonly transport: Transport;
  readonly runtime: HookRuntime;
  /** Count what targets with limits are asked. */
  readonly counters: Counters;
}

/**
 * One try at one target: hooks, the request in the target's wire, its credential, and the head of the answer with the
 * body still flowing when it streams. Rejects with what refuses or fails it. Goes from step to step without waiting where
 * there is nothing to wait for: this runs for every request.
 */
export function runTry(parts: TryParts, setup: TrySetup): Promise<Answer> {
  const { exchange } = parts;
  const { body, endpoint, facts } = exchange;
  forgetTry(facts);
  try {
    const loads = !body.loaded && (endpoint.modelled || needsBody(exchange, parts));
    return loads ? body.load().then(() => throughHooks(parts, setup)) : throughHooks(parts, setup);
  } catch (error) {
    return Promise.reject(error);
  }
}

function throughHooks(parts: TryParts, setup: TrySetup): Promise<Answer> {
  const { exchange, options, params } = parts;
  const { body, pipeline, facts } = exchange;
  const hooked = pipeline.attempt.length + pipeline.attempted.length > 0;
  const sent = hooked || params !== undefined ? new ChangedBody(body) : undefined;
  exchange.sent = sent;
  if (params !== undefined && sent !== undefined && body.loaded) applyParams(params, exchange, sent);
  if (exchange.endpoint.modelled) checkRequest(exchange, sentBody(exchange), options.strictOpenAiCompliance);
  facts.attempts++;
  if (exchange.upgrade !== undefined) facts.modelRequested = queryModel(exchange.query);
  if (sent === undefined || !hooked) return ask(parts, setup);
  const { models } = parts.target;
  // An answer that a hook has kept is for those alone who may ask for its model now.
  if (models?.isRestricted === true) allowedModel(parts, models);
  exchange.attempt = new CurrentAttempt(parts, sent, setup.wires);
  const hooks = runAttemptHooks(exchange, setup.runtime, 0);
  const goOn = (early: Answer | undefined): Promise<Answer> => {
    if (early === undefined) return ask(parts, setup);
    // Nobody was asked.
    facts.attempts--;
    return Promise.resolve(early);
  };
  return isPromise(hooks) ? hooks.then(goOn) : goOn(hooks);
}

function ask(parts: TryParts, setup: TrySetup): Promise<Answer> {
  const asked = parts.target.models === undefined ? parts : forItsModel(parts, parts.target.models);
  const prepared = prepareRequest(asked, setup);
  return isPromise(prepared)
    ? prepared.then((ready) => askPrepared(asked, ready, setup))
    : askPrepared(asked, prepared, setup);
}

function askPrepared(asked: TryParts, prepared: PreparedRequest, setup: TrySetup): Promise<Answer> {
  const { credentials, limits } = asked.target;
  if (credentials === undefined && limits === undefined)
    return send(asked, prepared, prepared.outgoing.request, setup);
  return admitted(asked, prepared, setup);
}

/** The same for a target that needs a credential made, or may have no room. */
async function admitted(parts: TryParts, prepared: PreparedRequest, setup: TrySetup): Promise<Answer> {
  const { credentials, limits } = parts.target;
  let { request } = prepared.outgoing;
  if (credentials !== undefined) {
    const signed = authorized(request, credentials);
    request = isPromise(signed) ? await signed : signed;
  }
  if (limits !== undefined) await counted(parts.exchange, limits, setup.counters);
  return send(parts, prepared, request, setup);
}

function send(
  parts: TryParts,
  { outgoing, translation }: PreparedRequest,
  request: UpstreamRequest,
  { transport, runtime }: TrySetup,
): Promise<Answer> {
  const { exchange, options, target, judged } = parts;
  // Hooks and tokens take their time: nobody is asked for a client that has left meanwhile.
  if (exchange.aborted) {
    settleTargetLimits(exchange, 0);
    throw exchange.failure ?? clientLeft();
  }
  const { clock } = runtime;
  const { facts, pipeline } = exchange;
  facts.upstreamHost = hostOf(target.origin);
  facts.upstreamStartedAt = clock.monotonic();
  if (exchange.upgrade !== undefined) return sendUpgrade({ exchange, request, options, transport, clock });
  const { stripUsage } = outgoing;
  const translated = translation === undefined ? undefined : { streams: translation.streams };
  const sending = { exchange, options, transport, clock, request, stripUsage, translated };
  const answering = asksForOutput(exchange)
    ? batchOutput(exchange, outgoing.request, (asked) => sendSigned(sending, asked, target.credentials))
    : sendRequest(sending);
  if (translation === undefined && !judged && pipeline.attempted.length === 0) return answering;
  return looked(parts, answering, translation, runtime);
}

/** Another request of the same try. */
async function sendSigned(
  sending: Sending,
  asked: UpstreamRequest,
  credentials: TryParts['target']['credentials'],
): Promise<Answer> {
  const request = credentials === undefined ? asked : await authorized(asked, credentials);
  return sendRequest({ ...sending, request });
}

/** The answer once it has been translated and looked at. */
async function looked(
  { exchange, judged }: TryParts,
  answering: Promise<Answer>,
  translation: Translation | undefined,
  runtime: HookRuntime,
): Promise<Answer> {
  let answer = await answering;
  if (translation !== undefined)
    answer = await translatedAnswer(exchange, answer, translation, runtime.clock);
  if (judged && isStreamSource(answer.body)) answer = await begun(exchange, answer, answer.body);
  return exchange.pipeline.attempted.length > 0 ? runAttemptedHooks(exchange, answer, runtime) : answer;
}

/** Throws `provider_rate_limited` for a target that may not be asked now. */
async function counted(exchange: Exchange, limits: LimitCharges, counters: Counters): Promise<void> {
  try {
    await takeTargetLimits(exchange, limits, counters);
  } catch (error) {
    // Nobody was asked.
    exchange.facts.attempts--;
    throw error;
  }
}

/** The answer once its stream has begun well. Throws why it has not. */
async function begun(exchange: Exchange, answer: Answer, body: StreamSource): Promise<Answer> {
  const { dialect, endpoint } = exchange;
  const canTell = answer.dialect !== undefined && endpoint.modelled;
  const held = new HeldStream(body, canTell ? dialect.streamScanner(endpoint.id) : undefined);
  const failure = await held.begun();
  if (failure !== undefined) throw failure;
  return { ...answer, body: held };
}

/** What an earlier try has left behind. */
function forgetTry(facts: RequestFacts): void {
  if (facts.attempts === 0) return;
  facts.usage = undefined;
  facts.modelAnswered = '';
  facts.finishReason = '';
  facts.upstreamStartedAt = facts.upstreamEndedAt = 0;
  facts.firstByteAt = facts.firstTokenAt = 0;
  facts.requestBytes = 0;
}

/** `https://host:port` → `host:port`; the built-in provider has none and is called `mock`. */
function hostOf(origin: string): string {
  return origin.startsWith('mock:') ? 'mock' : origin.slice(origin.indexOf('//') + 2);
}

/** A refusal that no other target would lift: the client has left, or its request is wrong. */
export function isFinal(error: GatewayError): boolean {
  return finalCodes.has(error.code);
}

const finalCodes: ReadonlySet<string> = new Set<GatewayError['code']>([
  'client_closed',
  'client_stalled',
  'invalid_json',
  'body_too_large',
  'body_encoding_unsupported',
  'body_timeout',
  'overloaded',
  'shutting_down',
  'internal',
]);
