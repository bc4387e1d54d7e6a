import { GatewayError } from '../errors/gateway-error.ts';
import { jsonAnswer } from '../pipeline/reply.ts';
import type { Answer } from '../pipeline/answer.ts';
import type { ModelsCall } from './catalogue-request.ts';

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

/** What a list of models is told with. */
export interface ModelsTelling {
  readonly call: ModelsCall;
  /** Of the request, for filters and pages. */
  readonly query: string;
  /** Providers that could not be asked. */
  readonly unavailable?: readonly string[];
}

/**
 * The catalogue in the shape of the client's wire, or the one model that was asked for. Throws `invalid_request` for a
 * query that means nothing, and `resource_not_found` for a model that is not there.
 */
export function catalogueAnswer(models: readonly CatalogueModel[], telling: ModelsTelling): Answer {
  const { call, query } = telling;
  if (call.id !== undefined || call.wire !== 'openai') return modelsAnswer(filtered(models, query), telling);
  const page = modelPage(models, query);
  const total = page.total === page.models.length ? undefined : page.total;
  return openAiList(page.models, telling.unavailable, total);
}

/** The models of one provider, in the same way; what filters the catalogue says nothing here. */
export function modelsAnswer(models: readonly CatalogueModel[], telling: ModelsTelling): Answer {
  const { call, query, unavailable = [] } = telling;
  const { wire, id } = call;
  if (id !== undefined) {
    const found = models.find((one) => one.id === id);
    if (found === undefined)
      throw new GatewayError('resource_not_found', `There is no model "${id}". GET /models lists them.`, {
        param: 'model',
      });
    return jsonAnswer(200, records[wire](found));
  }
  if (wire === 'openai') return openAiList(models, unavailable);
  const given = new URLSearchParams(query);
  const list = wire === 'gemini' ? geminiPage(models, given) : anthropicPage(models, given);
  return jsonAnswer(200, { ...list, ...(unavailable.length > 0 && { unavailable }) });
}

const records = { openai: openAiRecord, anthropic: anthropicRecord, gemini: geminiRecord };

function openAiList(
  models: readonly CatalogueModel[],
  unavailable: readonly string[] = [],
  total: number | undefined = undefined,
): Answer {
  return jsonAnswer(200, {
    object: 'list',
    data: models.map(openAiRecord),
    ...(total !== undefined && { total }),
    ...(unavailable.length > 0 && { unavailable }),
  });
}

/** Anthropic's pages: `limit`, and the model after or before which they begin or end. */
function anthropicPage(models: readonly CatalogueModel[], given: URLSearchParams): object {
  const limit = sizeOf(given, 'limit', models.length);
  const place = (name: string): number | undefined => {
    const id = given.get(name);
    if (id === null) return undefined;
    const found = models.findIndex((one) => one.id === id);
    if (found < 0) throw refusal(name, 'the id of a model of the list');
    return found;
  };
  const after = place('after_id');
  const before = place('before_id');
  const start = after !== undefined ? after + 1 : before === undefined ? 0 : Math.max(0, before - limit);
  const end = before ?? start + limit;
  const data = models.slice(start, end).map(anthropicRecord);
  const hasMore = before === undefined ? end < models.length : start > 0;
  return {
    ...{ data, has_more: hasMore },
    ...{ first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null },
  };
}

/** Gemini's pages: `pageSize`, and a token that says where the next one begins. */
function geminiPage(models: readonly CatalogueModel[], given: URLSearchParams): object {
  const size = sizeOf(given, 'pageSize', models.length);
  const token = given.get('pageToken') || '0';
  if (!/^\d{1,9}$/.test(token)) throw refusal('pageToken', 'the nextPageToken of the page before');
  const start = Number(token);
  const end = start + size;
  return {
    models: models.slice(start, end).map(geminiRecord),
    ...(end < models.length && { nextPageToken: String(end) }),
  };
}

function sizeOf(given: URLSearchParams, name: string, all: number): number {
  const size = countOf(given, name);
  if (size === 0) throw refusal(name, 'a whole number of at least 1');
  return size ?? all;
}

function openAiRecord({ id, created, ownedBy }: CatalogueModel): object {
  return { id, object: 'model', created, owned_by: ownedBy };
}

/** A date that is not known is the beginning of the epoch, as Anthropic has it. */
function anthropicRecord({ id, created }: CatalogueModel): { readonly id: string } {
  const date = new Date(created * 1000).toISOString().replace('.000', '');
  return { ...{ type: 'model', id }, ...{ display_name: id, created_at: date } };
}

function geminiRecord({ id }: CatalogueModel): object {
  const supportedGenerationMethods = ['generateContent', 'streamGenerateContent'];
  return { name: `models/${id}`, displayName: id, supportedGenerationMethods };
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
  const found = filtered(models, query);
  const offset = countOf(given, 'offset') ?? 0;
  const limit = countOf(given, 'limit') ?? found.length;
  return { models: found.slice(offset, offset + limit), total: found.length };
}

function filtered(models: readonly CatalogueModel[], query: string): readonly CatalogueModel[] {
  if (query.length <= 1) return models;
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
  return found;
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
