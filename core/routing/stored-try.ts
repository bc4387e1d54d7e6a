import type { Exchange } from '../pipeline/exchange.ts';
import type { TargetModels } from '../ports/router.ts';
import { sentBody } from './build-request.ts';
import type { TryParts } from './try-parts.ts';

/**
 * The try with what its provider's integration says of the model: another address, a deployment, a price. Throws
 * `model_not_allowed`.
 */
export function forItsModel(parts: TryParts, models: TargetModels): TryParts {
  const { exchange, options, keyPrefix, params, cache, judged } = parts;
  const model = askedModel(exchange);
  if (model !== undefined) models.require(model);
  exchange.facts.pricedBy = models.pricesOf(model ?? '');
  const target = model === undefined ? undefined : models.targetOf(model, parts.target);
  return target === undefined ? parts : { exchange, target, options, keyPrefix, params, cache, judged };
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
