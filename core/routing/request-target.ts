import { isJsonType } from '../base/json.ts';
import type { EndpointId } from '../dialects/endpoint.ts';
import type { MaybePromise, RequestContext } from '../pipeline/context.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import { addressedProvider, callerKey } from '../pipeline/keys.ts';
import type { Target } from '../pipeline/router.ts';
import {
  addressedModel,
  type BroughtSettings,
  defaultTarget,
  requireSlug,
  resolveTarget,
  slugTarget,
  type TargetRules,
} from './resolve-target.ts';

/** Whether the request declares its body as JSON. */
export function declaresJson(context: Pick<RequestContext, 'header'>): boolean {
  return isJsonType(context.header('content-type'));
}

/** Whether headers name a provider, so that the model need not be examined. */
export function namesProvider(exchange: Exchange): boolean {
  return Boolean(exchange.service('provider') || exchange.service('virtual-key'));
}

/** Whether the model named a provider, according to `takeAddress`, or the prompt does. */
export function addressesProvider(exchange: Exchange): boolean {
  return exchange.get(addressedProvider) !== undefined;
}

/**
 * Removes the `@slug/` of the request's model where it addresses a provider of the configuration or of the caller's
 * workspace, and keeps it for `requestTarget`. A promise only when the body has to be read for it.
 */
export function takeAddress(exchange: Exchange, rules: TargetRules): MaybePromise<void> {
  const { body, endpoint } = exchange;
  if (addressesProvider(exchange)) return undefined;
  const isInPath = exchange.dialect.readCall !== undefined;
  if (!endpoint.modelled && !isInPath && !(mayAddress.has(endpoint.id) && declaresJson(exchange)))
    return undefined;
  if (!body.loaded && (endpoint.modelled || !isInPath))
    return body.load().then(() => takeAddress(exchange, rules));
  const addressed = addressedModel(namedModel(exchange), rules, exchange.get(callerKey));
  if (addressed === undefined) return undefined;
  exchange.set(addressedProvider, addressed.slug);
  if (exchange.dialect.readCall?.(exchange.path) === undefined) body.set(['model'], addressed.model);
  else exchange.path = withoutSlug(exchange.path, addressed.slug);
}

/** Endpoints whose JSON is read only for a provider in the model. */
const mayAddress: ReadonlySet<EndpointId> = new Set(['images.generations', 'audio.speech']);

/** The model in the request's path or in its body, which must be in memory. */
function namedModel({ dialect, path, body }: Exchange): unknown {
  const inPath = dialect.readCall?.(path);
  if (inPath !== undefined) return inPath.model;
  const { json } = body;
  return typeof json === 'object' && json !== null && !Array.isArray(json) ? json['model'] : undefined;
}

/**
 * The target that the request itself names, by headers or by its model (see `takeAddress`), else the default. `brought`
 * holds the settings of a config for it. A promise only while a secret has to be fetched. Throws `provider_missing`,
 * `provider_unknown`, `provider_ambiguous`, `provider_disabled`, `custom_host_refused`, `invalid_request`.
 */
export function requestTarget(
  exchange: Exchange,
  rules: TargetRules,
  defaultProvider: string | undefined,
  brought?: BroughtSettings,
): MaybePromise<Target> {
  const named = resolveTarget(exchange, rules, brought);
  if (named !== undefined) return named;
  const slug = exchange.get(addressedProvider);
  if (slug !== undefined) return slugTarget(exchange, slug, rules, brought);
  const isRead = exchange.endpoint.modelled && exchange.body.loaded;
  if (defaultProvider === undefined && isRead)
    requireSlug(namedModel(exchange), rules, exchange.get(callerKey));
  return defaultTarget(exchange, rules, defaultProvider, brought);
}

/** The path without the first `@slug/`, in any percent-encoding. */
function withoutSlug(path: string, slug: string): string {
  const at = /(?:@|%40)/i.exec(path);
  if (at === null) return path;
  const rest = path.slice(at.index + at[0].length + slug.length).replace(/^(?:\/|%2f)/i, '');
  return path.slice(0, at.index) + rest;
}
