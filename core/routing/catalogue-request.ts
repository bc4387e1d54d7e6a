import type { Exchange } from '../pipeline/exchange.ts';
import type { RouteOptions } from '../ports/router.ts';

/** `GET /models`. */
export function listsModels({ endpoint, method, path }: Exchange): boolean {
  return endpoint.id === 'models' && method === 'GET' && path === '/models';
}

/** The header `fetch-integrated-models` asks for the models of all providers. */
export function wantsCatalogue(exchange: Exchange): boolean {
  return exchange.service('fetch-integrated-models')?.toLowerCase() === 'true';
}

/** Neither the request's headers nor the options say whose models are asked for. */
export function namesNobody(
  exchange: Exchange,
  { defaultProvider, defaultConfig }: Pick<RouteOptions, 'defaultProvider' | 'defaultConfig'>,
): boolean {
  const named = exchange.service('provider') || exchange.service('virtual-key') || exchange.service('config');
  return !named && defaultProvider === undefined && defaultConfig === undefined;
}
