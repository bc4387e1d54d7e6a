import { GatewayError } from '../errors/gateway-error.ts';
import { type Answer, clientLeft, isStreamSource, type StreamSource } from '../pipeline/answer.ts';
import { ChangedBody } from '../pipeline/request-body.ts';
import { isPromise } from '../base/turns.ts';
import { type HookRuntime, callStep, loadBody } from '../pipeline/call-hook.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import type { RequestFacts } from '../pipeline/facts.ts';
import type { Limiter, LimitReservation } from '../ports/counters.ts';
import { type LimitCharges, takeCharges } from '../access/limit-charges.ts';
import { type BudgetAmounts, type ExpectedUse, nothingExpected, nothingUsed } from '../ports/budgets.ts';
import type { Prices } from '../ports/prices.ts';
import type { Transport, UpstreamRequest } from '../ports/transport.ts';
import { HeldStream } from './attempts/held-stream.ts';
import { authorized } from './credentials.ts';
import { isBatchOutputRequest, batchOutput } from './batch-output.ts';
import {
  checkRequest,
  needsBody,
  type PreparedRequest,
  prepareRequest,
  type PrepareSetup,
  sentBody,
  type AttemptParts,
  CurrentAttempt,
} from './upstream-request.ts';
import { noteCall } from './collected-answer.ts';
import { type Sending, sendRequest } from './upstream-answer.ts';
import { translatedAnswer, type Translation } from './translation.ts';
import { asGatewayError } from '../pipeline/settle.ts';
import type { MaybePromise } from '../pipeline/context.ts';
import type { TargetModels, AttemptOptions } from '../pipeline/router.ts';
import {
  applyParamEdits,
  withModelInPath,
  type ParamEdits,
  withModelPrefix,
} from './params/apply-param-edits.ts';
import { learnedUsageOf, learnsFrom } from '../pipeline/estimated-usage.ts';
import { limitsOnStoreFailure } from '../pipeline/keys.ts';
import { guardrailsOf, runsNone } from './request-guardrails.ts';
import type { Clock } from '../ports/clock.ts';
import { forwardAnswerHeaders } from './forward-headers.ts';
import type { AttemptStep } from '../pipeline/compile.ts';

/** Dependencies of attempts; one per generation. */
export interface AttemptSetup extends PrepareSetup {
  readonly transport: Transport;
  readonly runtime: HookRuntime;
  /** Counts attempts at targets with limits. */
  readonly limiter: Limiter;
  /** Estimates the cost of a request at a target with a budget in dollars. */
  readonly prices: Prices;
}

/**
 * One attempt at one target: hooks, the request in the target's dialect, its credential, and the head of the answer,
 * with the body still flowing when it streams. Rejects with the refusal or failure. Adds no promise between steps that
 * need none, because it runs for every request.
 */
export function runAttempt(parts: AttemptParts, setup: AttemptSetup): Promise<Answer> {
  const { exchange } = parts;
  const { body, endpoint, facts } = exchange;
  forgetAttempt(facts);
  try {
    const loads = !body.loaded && (endpoint.modelled || needsBody(exchange, parts));
    return loads ? body.load().then(() => throughHooks(parts, setup)) : throughHooks(parts, setup);
  } catch (error) {
    return Promise.reject(error);
  }
}

function throughHooks(parts: AttemptParts, setup: AttemptSetup): Promise<Answer> {
  const { exchange, options, params } = parts;
  const { body, pipeline, facts } = exchange;
  const hooked = pipeline.attempt.length + pipeline.attempted.length > 0;
  if (!pipeline.runsGuardrails && guardrailsOf(parts) !== undefined) throw runsNone(exchange, 'provider');
  const sent = hooked || params !== undefined ? new ChangedBody(body) : undefined;
  exchange.sent = sent;
  if (params !== undefined && sent !== undefined && body.loaded) applyParams(params, exchange, sent);
  if (exchange.endpoint.modelled) checkRequest(exchange, sentBody(exchange), options.strictOpenAiCompliance);
  facts.attempts++;
  if (exchange.upgrade !== undefined) facts.modelRequested = queryModel(exchange.query);
  if (sent === undefined || !hooked) return ask(parts, setup);
  const { models } = parts.target;
  // A hook may answer from a cache; check first that the caller may still use the model.
  if (models?.isRestricted === true) allowedModel(parts, models);
  exchange.attempt = new CurrentAttempt(parts, sent, setup.wires);
  const hooks = runAttemptHooks(exchange, setup.runtime, 0);
  const goOn = (early: EarlyAnswer | undefined): Promise<Answer> => {
    if (early === undefined) return ask(parts, setup);
    // No request went to the provider.
    facts.attempts--;
    return Promise.resolve(processEarlyAnswer(exchange, early, setup.runtime));
  };
  return isPromise(hooks) ? hooks.then(goOn) : goOn(hooks);
}

/** Runs an early answer through the `attempted` hooks of the plugins before the one that gave it. */
function processEarlyAnswer(
  exchange: Exchange,
  { answer, index }: EarlyAnswer,
  runtime: HookRuntime,
): MaybePromise<Answer> {
  const from = exchange.pipeline.attempted.findIndex((step) => step.index < index);
  return from < 0 ? answer : runAttemptedHooks(exchange, answer, runtime, from);
}

function ask(parts: AttemptParts, setup: AttemptSetup): Promise<Answer> {
  const asked = parts.target.models === undefined ? parts : applyModelSettings(parts, parts.target.models);
  const prepared = prepareRequest(asked, setup);
  return isPromise(prepared)
    ? prepared.then((ready) => askPrepared(asked, ready, setup))
    : askPrepared(asked, prepared, setup);
}

function askPrepared(asked: AttemptParts, prepared: PreparedRequest, setup: AttemptSetup): Promise<Answer> {
  const { credentials, limits } = asked.target;
  if (credentials === undefined && limits === undefined)
    return send(asked, prepared, prepared.outgoing.request, setup);
  return sendAdmitted(asked, prepared, setup);
}

/** Sends to a target whose credential has to be created, or that has limits. */
async function sendAdmitted(
  parts: AttemptParts,
  prepared: PreparedRequest,
  setup: AttemptSetup,
): Promise<Answer> {
  const { credentials, limits } = parts.target;
  let { request } = prepared.outgoing;
  if (credentials !== undefined) {
    const signed = authorized(request, credentials);
    request = isPromise(signed) ? await signed : signed;
  }
  if (limits !== undefined) await reserveTargetLimits(parts.exchange, limits, setup);
  return send(parts, prepared, request, setup);
}

function send(
  parts: AttemptParts,
  { outgoing, translation }: PreparedRequest,
  request: UpstreamRequest,
  { transport, runtime }: AttemptSetup,
): Promise<Answer> {
  const { exchange, options, target, judged } = parts;
  // Hooks and tokens take time: do not send for a client that has disconnected meanwhile.
  if (exchange.aborted) {
    settleTargetLimits(exchange, nothingUsed);
    throw exchange.failure ?? clientLeft();
  }
  const { clock } = runtime;
  const { facts, pipeline } = exchange;
  if (pipeline.keepsCall.length > 0) noteCall(exchange, request, runtime);
  facts.upstreamHost = hostOf(target.origin);
  facts.upstreamStartedAt = clock.monotonic();
  if (exchange.upgrade !== undefined) return sendUpgrade({ exchange, request, options, transport, clock });
  const { stripUsage } = outgoing;
  const translated = translation === undefined ? undefined : { streams: translation.streams };
  const sending = { exchange, options, transport, clock, request, stripUsage, translated };
  const answering = isBatchOutputRequest(exchange)
    ? batchOutput(exchange, outgoing.request, (asked) => sendSigned(sending, asked, target.credentials))
    : sendRequest(sending);
  if (translation === undefined && !judged && pipeline.attempted.length === 0) return answering;
  return processAnswer(parts, answering, translation, runtime);
}

/** Another request of the same attempt. */
async function sendSigned(
  sending: Sending,
  asked: UpstreamRequest,
  credentials: AttemptParts['target']['credentials'],
): Promise<Answer> {
  const request = credentials === undefined ? asked : await authorized(asked, credentials);
  return sendRequest({ ...sending, request });
}

/** The answer, translated and checked. */
async function processAnswer(
  { exchange, judged }: AttemptParts,
  answering: Promise<Answer>,
  translation: Translation | undefined,
  runtime: HookRuntime,
): Promise<Answer> {
  let answer = await answering;
  if (translation !== undefined)
    answer = await translatedAnswer(exchange, answer, translation, runtime.clock);
  if (judged && isStreamSource(answer.body)) answer = await awaitStreamStart(exchange, answer, answer.body);
  return exchange.pipeline.attempted.length > 0 ? runAttemptedHooks(exchange, answer, runtime) : answer;
}

/** Throws `provider_rate_limited` or `provider_budget_exhausted` for a target without room. */
async function reserveTargetLimits(
  exchange: Exchange,
  limits: LimitCharges,
  setup: AttemptSetup,
): Promise<void> {
  try {
    await takeTargetLimits(exchange, limits, setup);
  } catch (error) {
    // No request went to the provider.
    exchange.facts.attempts--;
    throw error;
  }
}

/** The answer, after the first event of its stream. Throws the error when the stream begins with one or breaks first. */
async function awaitStreamStart(exchange: Exchange, answer: Answer, body: StreamSource): Promise<Answer> {
  const { dialect, endpoint } = exchange;
  const canTell = answer.dialect !== undefined && endpoint.modelled;
  const held = new HeldStream(body, canTell ? dialect.streamScanner(endpoint.id) : undefined);
  const failure = await held.begun();
  if (failure !== undefined) throw failure;
  return { ...answer, body: held };
}

/** Clears the facts of an earlier attempt. */
function forgetAttempt(facts: RequestFacts): void {
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

/**
 * Runs the `attempted` hooks on the provider's answer, the one nearest the provider first, and returns their result; a
 * promise only when one of them returns one. Throws their refusal, and then cancels the stream of the answer.
 */
function runAttemptedHooks(
  exchange: Exchange,
  received: Answer,
  runtime: HookRuntime,
  from = 0,
): MaybePromise<Answer> {
  const steps = exchange.pipeline.attempted;
  let answer = received;
  for (let i = from; i < steps.length; i++) {
    const step = steps[i] as (typeof steps)[number];
    const before = answer;
    try {
      const replaced = callStep(step, exchange, runtime, () => step.run(exchange, before));
      if (isPromise(replaced))
        return replaced.then(
          (came) => runAttemptedHooks(exchange, came ?? before, runtime, i + 1),
          (error: unknown) => cancelAndThrow(before, error),
        );
      answer = replaced ?? before;
    } catch (error) {
      cancelAndThrow(before, error);
    }
  }
  return answer;
}

function cancelAndThrow(answer: Answer, error: unknown): never {
  if (isStreamSource(answer.body)) answer.body.cancel(asGatewayError(error));
  throw error;
}

/**
 * The attempt with the integration's settings for the model: another address, a deployment, a price. Throws
 * `model_not_allowed`.
 */
function applyModelSettings(parts: AttemptParts, models: TargetModels): AttemptParts {
  const { exchange } = parts;
  const model = models.isRestricted ? allowedModel(parts, models) : modelToSend(exchange);
  exchange.facts.pricedBy = models.pricesOf(model ?? '');
  const target = model === undefined ? undefined : models.targetOf(model, parts.target);
  return target === undefined ? parts : { ...parts, target };
}

/**
 * The requested model at a provider with a model list. Throws `model_not_allowed` when the list lacks a model that the
 * request names.
 */
function allowedModel({ exchange, target }: AttemptParts, models: TargetModels): string | undefined {
  const { names, untold } = exchange.models;
  // A full name of the Gemini API is the name of the model after its collection.
  const inCollection = exchange.dialect.name === 'google-gemini' || target.dialect.startsWith('google-');
  const plain = inCollection ? names.map((name) => name.replace(/^models\//, '')) : names;
  for (const name of plain) models.require(name);
  const { modelRequested } = exchange.facts;
  // An attempt hook may have changed the body after the path was derived from it.
  if (exchange.endpoint.modelled && modelRequested !== '') models.require(modelRequested);
  if (untold !== undefined) throw models.refusalOfUntold(untold);
  return plain[0];
}

/** The model to send, after config and hooks; undefined for operations that name none, or whose body is not read. */
function modelToSend(exchange: Exchange): string | undefined {
  const { dialect, endpoint, facts } = exchange;
  if (exchange.upgrade !== undefined) return facts.modelRequested;
  const call = dialect.readCall?.(exchange.path);
  if (call !== undefined) return call.model;
  const body = sentBody(exchange);
  const named = body.loaded ? modelIn(body) : undefined;
  if (typeof named === 'string') return named;
  return endpoint.modelled ? '' : undefined;
}

/**
 * Applies the config's parameters to the body of the present attempt; a model goes where the client's dialect has it.
 */
export function applyParams(params: ParamEdits, exchange: Exchange, sent: ChangedBody): void {
  const call = exchange.dialect.readCall?.(exchange.path);
  const before = call === undefined ? undefined : modelIn(sent);
  applyParamEdits(params, sent);
  if (call === undefined) return;
  const model = modelIn(sent);
  if (model === before || typeof model !== 'string') {
    const renamed = withModelPrefix(params, call.model);
    if (renamed !== call.model) exchange.path = withModelInPath(exchange.path, call.model, renamed);
    return;
  }
  sent.remove(['model']);
  exchange.path = withModelInPath(exchange.path, call.model, model);
}

function modelIn({ json }: Pick<ChangedBody, 'json'>): unknown {
  return typeof json === 'object' && json !== null && !Array.isArray(json) ? json['model'] : undefined;
}

/**
 * Counts an attempt at a target with limits, just before the request is sent. Throws `provider_rate_limited` when a
 * limit is used up, and the limiter's error while its store is unreachable. A promise only where the limiter returns one.
 */
function takeTargetLimits(
  exchange: Exchange,
  limits: LimitCharges,
  setup: AttemptSetup,
): void | Promise<void> {
  const { limiter } = setup;
  const expected = expectedUse(exchange, limits, setup);
  const onStoreFailure = exchange.get(limitsOnStoreFailure);
  const code = 'provider_rate_limited';
  const taken = takeCharges(limits, { limiter, expected, onStoreFailure, code });
  if (isPromise(taken)) return taken.then((reserved) => keepReservation(exchange, reserved));
  keepReservation(exchange, taken);
}

function expectedUse(
  exchange: Exchange,
  { needsTokens, needsCost }: LimitCharges,
  { limiter, prices }: AttemptSetup,
): ExpectedUse {
  if (!needsTokens && !needsCost) return nothingExpected;
  const learned = learnedUsageOf(limiter);
  exchange.set(learnsFrom, learned);
  if (!needsCost) return learned.expectedOf(exchange);
  const { pricedBy, aiService, modelRequested: model } = exchange.facts;
  const price = { provider: pricedBy ?? aiService, model, isOneOfSeveral: false };
  return learned.expectedOf(exchange, { prices, price, at: exchange.startedAt });
}

/** Settles the limits of an attempt that is not served: its usage counts as `used`. */
export function settleTargetLimits(exchange: Exchange, used: BudgetAmounts): void {
  const { reservation } = exchange;
  if (reservation === undefined) return;
  exchange.reservation = undefined;
  // The limiter itself reports usage that it cannot count.
  void reservation.settle(used);
}

function keepReservation(exchange: Exchange, reserved: LimitReservation | undefined): void {
  exchange.reservation = reserved;
}

/** Parameters of `sendUpgrade`. */
interface UpgradeSending {
  readonly exchange: Exchange;
  readonly request: UpstreamRequest;
  readonly options: AttemptOptions;
  readonly transport: Transport;
  readonly clock: Clock;
}

/**
 * Asks the provider for WebSocket. Returns its 101 with the connection, any other answer unchanged. Throws the
 * transport's error, and `not_supported` where the transport has no WebSocket.
 */
async function sendUpgrade(sending: UpgradeSending): Promise<Answer> {
  const { exchange, request, options, transport, clock } = sending;
  const { facts } = exchange;
  if (transport.upgrade === undefined) {
    throw new GatewayError(
      'not_supported',
      `The provider "${facts.provider}" serves no WebSocket. Name another one.`,
      { param: 'provider' },
    );
  }
  const call = transport.upgrade(request);
  exchange.onAbort(() => {
    // The relay ends a switched connection, after the client's last bytes.
    if (exchange.upgrade?.switched !== true) call.abort(exchange.failure ?? clientLeft());
  });
  try {
    const answer = await call.answer;
    facts.firstByteAt = clock.monotonic();
    const headers = forwardAnswerHeaders(answer.headers, false, exchange.knownNames);
    if (answer.kind === 'switched') {
      const switched = { connection: answer.connection, idleTimeoutMs: options.idleTimeoutMs };
      return { status: 101, headers, body: null, source: 'provider', switched };
    }
    facts.upstreamEndedAt = facts.firstByteAt;
    return { status: answer.status, headers, body: answer.body, source: 'provider' };
  } catch (error) {
    facts.upstreamEndedAt = clock.monotonic();
    throw error;
  }
}

/** The model in the query of a request for WebSocket (`/realtime?model=…`), or an empty text. */
function queryModel(query: string): string {
  return new URLSearchParams(query).get('model') ?? '';
}

/** Runs the hooks from index `from` until one answers. A promise only when a hook returns one, or a body must be read. */
function runAttemptHooks(
  exchange: Exchange,
  runtime: HookRuntime,
  from: number,
): MaybePromise<EarlyAnswer | undefined> {
  const steps = exchange.pipeline.attempt;
  for (let i = from; i < steps.length; i++) {
    const step = steps[i] as AttemptStep;
    const loading = loadBody(exchange, step.loadsBody);
    if (loading !== undefined) return loading.then(() => runAttemptHooks(exchange, runtime, i));
    const answer = callStep(step, exchange, runtime, () => step.run(exchange));
    if (isPromise(answer))
      return answer.then((came) =>
        came === undefined ? runAttemptHooks(exchange, runtime, i + 1) : { answer: came, index: step.index },
      );
    if (answer !== undefined) return { answer, index: step.index };
  }
  return undefined;
}

/** An answer from the hook of a plugin instead of the provider. */
interface EarlyAnswer {
  readonly answer: Answer;
  /** Position of the plugin. */
  readonly index: number;
}
