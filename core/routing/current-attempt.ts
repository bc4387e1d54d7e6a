import type { EndpointId } from '../dialects/endpoint.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { AttemptBody, AttemptView } from '../pipeline/context.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import type { CacheSettings } from '../ports/cache.ts';
import type { GuardrailSpecs } from '../ports/guardrails.ts';
import type { HeaderList } from '../ports/header-list.ts';
import type { Target, AttemptOptions } from '../pipeline/router.ts';
import {
  hostFacts,
  isStrict,
  onDropOf,
  planCall,
  type ProviderDialects,
  type AttemptParts,
} from './upstream-request.ts';
import { relevantHeaders } from './forward-headers.ts';
import { guardrailsOf } from './request-guardrails.ts';
import { targetIdentity } from './credentials.ts';

/** View of the attempt at one target for attempt hooks. */
export class CurrentAttempt implements AttemptView {
  readonly number: number;
  readonly provider: string;
  readonly aiService: string;
  readonly model: string;
  readonly body: AttemptBody;
  readonly cache: CacheSettings | undefined;
  readonly guardrails: GuardrailSpecs | undefined;
  // Private, so that no plugin can read the credential of the target.
  readonly #exchange: Exchange;
  readonly #target: Target;
  readonly #keyPrefix: string;
  readonly #options: AttemptOptions;
  readonly #wires: ProviderDialects;
  #abandonListeners: (() => void)[] | undefined;

  /** `body` is the body of this attempt, which hooks may change. */
  constructor(parts: AttemptParts, body: AttemptBody, wires: ProviderDialects) {
    const { exchange, target, keyPrefix, cache, options } = parts;
    this.number = exchange.facts.attempts;
    this.provider = target.provider;
    this.aiService = target.service;
    this.model = exchange.facts.modelRequested;
    this.body = body;
    this.cache = cache;
    this.guardrails = guardrailsOf(parts);
    this.#exchange = exchange;
    this.#target = target;
    this.#keyPrefix = keyPrefix;
    this.#options = options;
    this.#wires = wires;
  }

  get deployment(): string {
    const { models } = this.#target;
    const target = models?.targetOf(this.#exchange.models.names[0] ?? '', this.#target) ?? this.#target;
    return target.settings['azure_deployment_id'] ?? '';
  }

  get target(): string {
    return targetIdentity(this.#exchange, this.#target, this.#keyPrefix, this.#options.forwardHeaders);
  }

  get isStrict(): boolean {
    return isStrict(this.#exchange, this.#options.strictOpenAiCompliance);
  }

  get terms(): string {
    return `${this.isStrict ? 'strict' : 'loose'} ${onDropOf(this.#target, this.#options)}`;
  }

  get clientHeaders(): HeaderList {
    const { headers, headerNames } = this.#exchange;
    return relevantHeaders(headers, headerNames, this.#options.sensitiveHeaders);
  }

  translates(operation: EndpointId): boolean {
    const { dialect, facts, path, query, endpoint } = this.#exchange;
    const call = { dialect, facts, path, query, method: 'POST', endpoint: { ...endpoint, id: operation } };
    try {
      return planCall(call, this.#target, hostFacts(this.#target, this.model), this.#wires).kind !== 'pass';
    } catch (error) {
      if (GatewayError.is(error)) return false;
      throw error;
    }
  }

  onAbandon(run: () => void): void {
    (this.#abandonListeners ??= []).push(run);
  }

  /** Notifies the listeners that this attempt is discarded. */
  abandon(): void {
    const listeners = this.#abandonListeners ?? [];
    this.#abandonListeners = undefined;
    for (const run of listeners) run();
  }
}
