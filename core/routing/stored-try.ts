import type { Exchange } from '../pipeline/exchange.ts';
import type { TargetModels } from '../pipeline/router.ts';
import { sentBody } from './build-request.ts';
import type { TryParts } from './try-parts.ts';

/**
 * The try with what its provider's integration says of the model: another address, a deployment, a price. Throws
 * `model_not_allowed`.
 */
export function forItsModel(parts: TryParts, models: TargetModels): TryParts {
  const { exchange, options, keyPrefix, params, cache, judged } = parts;
  const model = models.isRestricted ? allowedModel(parts, models) : askedModel(exchange);
  exchange.facts.pricedBy = models.pricesOf(model ?? '');
  const target = model === undefined ? undefined : models.targetOf(model, parts.target);
  return target === undefined ? parts : { exchange, target, options, keyPrefix, params, cache, judged };
}

/** The model that is asked for at a provider with a list, which has all that the request names. Throws `model_not_allowed`. */
export function allowedModel({ exchange, target }: TryParts, models: TargetModels): string | undefined {
  const { names, untold } = exchange.models;
  // A full name of the Gemini API is the name of the model with its collection in front.
  const inCollection = exchange.dialect.name === 'google-gemini' || target.dialect.startsWith('google-');
  const plain = inCollection ? names.map((name) => name.replace(/^models\//, '')) : names;
  for (const name of plain) models.require(name);
  const { modelRequested } = exchange.facts;
  // An attempt hook may have changed the body after the path was made of it.
  if (exchange.endpoint.modelled && modelRequested !== '') models.require(modelRequested);
  if (untold !== undefined) throw models.refusalOfUntold(untold);
  return plain[0];
}

/** The model that goes out, after config and hooks; undefined for operations that name none, or that nobody reads. */
function askedModel(exchange: Exchange): string | undefined {
  const { dialect, endpoint, facts } = exchange;
  if (exchange.upgrade !== undefined) return facts.modelRequested;
  const call = dialect.readCall?.(exchange.path);
  if (call !== undefined) return call.model;
  const body = sentBody(exchange);
  const json = body.loaded ? body.json : undefined;
  const named = typeof json === 'object' && json !== null && !Array.isArray(json) ? json['model'] : undefined;
  if (typeof named === 'string') return named;
  return endpoint.modelled ? '' : undefined;
}
