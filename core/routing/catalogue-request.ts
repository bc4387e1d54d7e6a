import type { DialectName } from '../dialects/endpoint.ts';
import { headerValue } from '../ports/header-list.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import type { RouteOptions } from '../pipeline/router.ts';

/** The wires whose clients have a shape of their own for models. */
export type ModelsWire = 'openai' | 'anthropic' | 'gemini';

/** A question for the list of models, or for the one of this id. */
export interface ModelsCall {
  readonly wire: ModelsWire;
  /** As addressed; undefined for the list. */
  readonly id: string | undefined;
  /** The path is the one that hosts of OpenAI's and Anthropic's wire have (`/models`), and not Gemini's (`/v1beta/models`). */
  readonly isPlainPath: boolean;
}

const modelsPath = /^(\/v1(?:alpha|beta)\d*)?\/models(?:\/(.+))?$/;

/** Whether it is `GET /models` or `/v1beta/models`, for all of them or for one. */
export function asksForModels({ endpoint, method, path }: Exchange): boolean {
  return endpoint.id === 'models' && method === 'GET' && modelsPath.test(path);
}

/** What a request asks for that `asksForModels`, and in whose shape: a header or a path that only one of the wires has tells. */
export function modelsCall({ path, headers }: Pick<Exchange, 'path' | 'headers'>): ModelsCall {
  const [, version, id] = modelsPath.exec(path) ?? [];
  const isGemini = version !== undefined || headerValue(headers, 'x-goog-api-key') !== undefined;
  const isAnthropic = headerValue(headers, 'anthropic-version') !== undefined;
  return {
    wire: isGemini ? 'gemini' : isAnthropic ? 'anthropic' : 'openai',
    id: id === undefined ? undefined : decoded(id),
    isPlainPath: version === undefined,
  };
}

/** The wire in whose shape a host lists its models; undefined for hosts with a shape of their own. */
export function modelsWireOf(dialect: DialectName): ModelsWire | undefined {
  return hostWires[dialect];
}

const hostWires: Readonly<Partial<Record<DialectName, ModelsWire>>> = {
  'openai-chat': 'openai',
  'openai-completions': 'openai',
  'openai-responses': 'openai',
  'anthropic-messages': 'anthropic',
  'google-gemini': 'gemini',
};

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** The header `fetch-integrated-models` asks for the models of all providers. */
export function wantsCatalogue(exchange: Exchange): boolean {
  return exchange.service('fetch-integrated-models')?.toLowerCase() === 'true';
}

/** Neither the request's headers nor the options say whose models are asked for. `isOpen`: a default that is listed among all. */
export function namesNobody(
  exchange: Exchange,
  { defaultProvider, defaultConfig }: Pick<RouteOptions, 'defaultProvider' | 'defaultConfig'>,
  isOpen: (defaultProvider: string) => boolean,
): boolean {
  const named = exchange.service('provider') || exchange.service('virtual-key') || exchange.service('config');
  if (named || defaultConfig !== undefined) return false;
  return defaultProvider === undefined || isOpen(defaultProvider);
}
