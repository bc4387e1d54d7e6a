import type { Exchange } from '../pipeline/exchange.ts';
import type { Target } from '../ports/router.ts';

/** Stands for the gateway's own list of models, to which no host belongs. */
export const catalogueTarget: Target = Object.freeze({
  provider: '',
  service: '',
  dialect: 'openai-chat',
  origin: '',
  basePath: '',
  guarded: false,
  headers: [],
  passAuthorization: false,
  usageInStream: 'never',
  alsoSpeaks: [],
  quirks: {},
  settings: {},
  credentials: undefined,
  signsBody: false,
  onDrop: undefined,
});

/** `GET /models`. */
export function listsModels({ endpoint, method, path }: Exchange): boolean {
  return endpoint.id === 'models' && method === 'GET' && path === '/models';
}

/** A list of models is asked for and nothing says whose, or the header `fetch-integrated-models` asks for all. */
export function wantsCatalogue(exchange: Exchange, defaultProvider: string | undefined): boolean {
  if (!listsModels(exchange)) return false;
  if (exchange.service('fetch-integrated-models')?.toLowerCase() === 'true') return true;
  const named = exchange.service('provider') || exchange.service('virtual-key') || exchange.service('config');
  return !named && defaultProvider === undefined;
}
