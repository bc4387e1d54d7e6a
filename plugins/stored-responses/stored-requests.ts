import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Answer } from '../../core/pipeline/answer.ts';
import type { HookResult, JsonObject, JsonValue, RequestContext } from '../../core/pipeline/context.ts';
import { writeJson } from '../../core/base/json.ts';
import { asObject, idOf, type ResponseStore, type StoredResponse } from './response-store.ts';

const pathOf = /^\/responses\/(resp_[\w-]{1,200})(\/input_items)?\/?$/;

/** Requests about a response that is kept. */
export class StoredRequests {
  private readonly store: ResponseStore;

  constructor(store: ResponseStore) {
    this.store = store;
  }

  /** Answers for responses that are kept; others are their provider's. */
  answer(context: RequestContext): HookResult {
    const { endpoint, method, path, facts } = context;
    if (endpoint.modelled || endpoint.dialect !== 'openai-responses') return undefined;
    const [, id, isInput] = pathOf.exec(path) ?? [];
    if (id === undefined || (method !== 'GET' && !(method === 'DELETE' && isInput === undefined)))
      return undefined;
    const owner = { organisationId: facts.organisationId, workspaceId: facts.workspaceId };
    const answered = (stored: StoredResponse | undefined): HookResult => {
      if (stored === undefined) return undefined;
      if (method === 'DELETE')
        return this.store
          .delete(owner, stored)
          .then(() => jsonAnswer({ id, object: 'response', deleted: true }));
      const query = new URLSearchParams(context.query);
      return isInput === undefined ? whole(stored, query) : inputPage(stored, query);
    };
    const found = this.store.response(owner, id);
    return found instanceof Promise ? found.then(answered) : answered(found);
  }

  /** The target keeps nothing either, and has no such path. */
  unknown({ path }: RequestContext): undefined {
    const [, id] = /^\/responses\/(resp_[\w-]{1,200})(?:\/.*)?$/.exec(path) ?? [];
    if (id === undefined) return undefined;
    throw new GatewayError(
      'resource_not_found',
      `No response "${id.slice(0, 100)}" is kept for this workspace. It was made with "store": false, was deleted, was too large to keep, or is older than ${this.store.seconds} s.`,
      { param: 'response_id' },
    );
  }
}

function whole({ response }: StoredResponse, query: URLSearchParams): Answer {
  if (query.get('stream') === 'true')
    throw new GatewayError(
      'not_supported',
      'A response that the gateway keeps is whole and is not streamed again. Leave "stream" out.',
      { param: 'stream' },
    );
  return jsonAnswer(response);
}

/** One page of the items that a response was asked with, the latest first unless `order=asc`. */
function inputPage({ input, response }: StoredResponse, query: URLSearchParams): Answer {
  const limit = Number(query.get('limit') ?? '20');
  if (!Number.isInteger(limit) || limit < 1 || limit > 100) throw wrong('limit', 'a number from 1 to 100');
  const order = query.get('order') ?? 'desc';
  if (order !== 'asc' && order !== 'desc') throw wrong('order', '"asc" or "desc"');
  const items = input.map((item, i) => listed(item, `in_${idOf(response).slice('resp_'.length)}_${i}`));
  if (order === 'desc') items.reverse();
  const after = query.get('after');
  const at = after === null ? -1 : items.findIndex((item) => item['id'] === after);
  if (after !== null && at === -1) throw wrong('after', 'the id of an item of this list');
  const data = items.slice(at + 1, at + 1 + limit);
  const page = {
    object: 'list',
    data,
    first_id: data[0]?.['id'] ?? null,
    last_id: data.at(-1)?.['id'] ?? null,
    has_more: at + 1 + limit < items.length,
  };
  return jsonAnswer(page);
}

/** An item as lists show it: with an id and a type, and the content of messages in parts. */
function listed(item: JsonValue, id: string): JsonObject {
  const given = asObject(item) ?? {};
  const isMessage = given['type'] === undefined && given['role'] !== undefined;
  const shown: JsonObject = { id, ...(isMessage ? { type: 'message' } : {}), ...given };
  if (shown['type'] !== 'message') return shown;
  const type = shown['role'] === 'assistant' ? 'output_text' : 'input_text';
  const { content } = shown;
  const parts = typeof content === 'string' ? [{ type, text: content }] : (content ?? []);
  return { status: 'completed', ...shown, content: parts };
}

function jsonAnswer(value: JsonObject): Answer {
  const body = Buffer.from(writeJson(value));
  return { status: 200, headers: ['content-type', 'application/json'], body, isJson: true };
}

function wrong(param: string, expected: string): GatewayError {
  return new GatewayError('invalid_request', `"${param}" must be ${expected}.`, { param });
}
