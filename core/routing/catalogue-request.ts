import type { Exchange } from '../pipeline/exchange.ts';
import type { RouteOptions } from '../ports/router.ts';

/** `GET /models`. */
export function listsModels({ endpoint, method, path }: Exchange): boolean {
  return endpoint.id === 'models' && method === 'GET' && path === '/models';
}

/** A list of models is asked for and nothing says whose, or the header `fetch-integrated-models` asks for all. */
export function wantsCatalogue(
  exchange: Exchange,
  { defaultProvider, defaultConfig }: Pick<RouteOptions, 'defaultProvider' | 'defaultConfig'>,
): boolean {
  if (!listsModels(exchange)) return false;
  if (exchange.service('fetch-integrated-models')?.toLowerCase() === 'true') return true;
  const named = exchange.service('provider') || exchange.service('virtual-key') || exchange.service('config');
  return !named && defaultProvider === undefined && defaultConfig === undefined;
}
