import { GatewayError } from '../errors/gateway-error.ts';

/** A model of the catalogue, and what it is found by. */
export interface CatalogueModel {
  /** As addressed: `@provider/model`. */
  readonly id: string;
  /** Seconds since the epoch; 0 when the provider does not say. */
  readonly created: number;
  readonly ownedBy: string;
  /** Slug of its provider. */
  readonly provider: string;
  /** Kind of its provider: `openai`. */
  readonly service: string;
}

/** The part of the catalogue that a query asks for, and how many models the filters leave. */
export interface ModelPage {
  readonly models: readonly CatalogueModel[];
  readonly total: number;
}

/**
 * Filters (`ai_service`, `provider`), sorts (`sort` by id, created, provider or ai_service; `order`) and cuts (`limit`,
 * `offset`) the catalogue. Other parameters say nothing here. Throws `invalid_request` for a value that means nothing.
 */
export function modelPage(models: readonly CatalogueModel[], query: string): ModelPage {
  if (query.length <= 1) return { models, total: models.length };
  const given = new URLSearchParams(query);
  const service = given.get('ai_service');
  const provider = given.get('provider')?.replace(/^@/, '');
  const found = models.filter(
    (one) =>
      (service === null || one.service === service) && (provider === undefined || one.provider === provider),
  );
  const sort = given.get('sort');
  const order = given.get('order') ?? 'asc';
  if (order !== 'asc' && order !== 'desc') throw refusal('order', 'asc or desc');
  if (sort !== null) {
    const value = Object.hasOwn(sortable, sort) ? sortable[sort as keyof typeof sortable] : undefined;
    if (value === undefined) throw refusal('sort', Object.keys(sortable).join(', '));
    found.sort((a, b) => compared(value(a), value(b)));
  }
  if (order === 'desc') found.reverse();
  const offset = countOf(given, 'offset') ?? 0;
  const limit = countOf(given, 'limit') ?? found.length;
  return { models: found.slice(offset, offset + limit), total: found.length };
}

const sortable = {
  id: ({ id }: CatalogueModel) => id,
  created: ({ created }: CatalogueModel) => created,
  provider: ({ provider }: CatalogueModel) => provider,
  ai_service: ({ service }: CatalogueModel) => service,
};

function compared(one: string | number, other: string | number): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

function countOf(given: URLSearchParams, name: string): number | undefined {
  const text = given.get(name);
  if (text === null) return undefined;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw refusal(name, 'a whole number');
}

function refusal(name: string, expected: string): GatewayError {
  return new GatewayError('invalid_request', `The query parameter "${name}" must be ${expected}.`, {
    param: name,
  });
}
