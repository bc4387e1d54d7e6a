import type {
  HookResult,
  JsonObject,
  JsonValue,
  MaybePromise,
  RequestContext,
} from '../../core/pipeline/context.ts';
import { parseJson, writeJson } from '../../core/base/json.ts';
import type { Cache } from '../../core/ports/cache.ts';
import { sha256 } from '../../core/base/bytes.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Answer, StreamSource, StreamTarget } from '../../core/pipeline/answer.ts';

const ends = ['event: response.completed\n', 'event: response.incomplete\n'];
/** Bytes at the end of a chunk that may hold the start of the end marker. */
const overlap = 32;

/**
 * A Responses stream that passes through up to its final event. The final event is held back until `whole` has handled
 * it, so that a client that has read the end can refer to the response. A final event above `maxBytes` passes through.
 */
export class KeptStream implements StreamSource, StreamTarget {
  private readonly source: StreamSource;
  private readonly maxBytes: number;
  private readonly whole: (bytes: Buffer) => unknown;
  private target: StreamTarget | undefined;
  private tail = '';
  /** The chunks from the one in which the final event starts. */
  private held: Buffer[] | undefined;
  /** Offset of the final event from the start of `tail`, which is sent already. */
  private begins = 0;
  private heldBytes = 0;
  private isOver = false;

  constructor(source: StreamSource, maxBytes: number, whole: (bytes: Buffer) => unknown) {
    this.source = source;
    this.maxBytes = maxBytes;
    this.whole = whole;
  }

  pipe(target: StreamTarget): void {
    this.target = target;
    this.source.pipe(this);
  }

  resume(): void {
    this.source.resume();
  }

  cancel(error: GatewayError): void {
    this.isOver = true;
    this.source.cancel(error);
  }

  data(chunk: Buffer): boolean {
    if (this.isOver) return this.target?.data(chunk) ?? false;
    if (this.held === undefined && !this.hasBegun(chunk)) return this.target?.data(chunk) ?? false;
    const held = (this.held ??= []);
    held.push(chunk);
    this.heldBytes += chunk.length;
    if (this.heldBytes <= this.maxBytes) return true;
    this.isOver = true;
    return this.release();
  }

  end(): void {
    const { held } = this;
    if (held === undefined || this.isOver) {
      this.target?.end();
      return;
    }
    const done = (): void => {
      if (this.isOver) return;
      this.isOver = true;
      this.release();
      this.target?.end();
    };
    const pending = this.whole(
      Buffer.concat([Buffer.from(this.tail, 'latin1'), ...held]).subarray(this.begins),
    );
    if (pending instanceof Promise) pending.then(done, done);
    else done();
  }

  fail(error: GatewayError, told?: Buffer): void {
    this.isOver = true;
    this.release();
    this.target?.fail(error, told);
  }

  private hasBegun(chunk: Buffer): boolean {
    // Event names are ASCII, and no line within JSON starts like one.
    const text = `\n${this.tail}${chunk.toString('latin1')}`;
    const at = Math.max(...ends.map((end) => text.lastIndexOf(`\n${end}`)));
    if (at !== -1) {
      this.begins = at;
      return true;
    }
    this.tail = text.slice(1).slice(-overlap);
    return false;
  }

  private release(): boolean {
    const { held = [] } = this;
    this.held = undefined;
    let room = true;
    for (const chunk of held) room = this.target?.data(chunk) ?? false;
    return room;
  }
}

const pathOf = /^\/responses\/(resp_[\w-]{1,200})(\/input_items)?\/?$/;

/** Requests about a stored response. */
export class StoredRequests {
  private readonly store: ResponseStore;

  constructor(store: ResponseStore) {
    this.store = store;
  }

  /** Answers for stored responses; requests about others go to their provider. */
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
      return isInput === undefined ? answerWithResponse(stored, query) : inputPage(stored, query);
    };
    const found = this.store.response(owner, id);
    return found instanceof Promise ? found.then(answered) : answered(found);
  }

  /** Refuses with `resource_not_found`: neither the gateway nor the target stores the response. */
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

function answerWithResponse({ response }: StoredResponse, query: URLSearchParams): Answer {
  if (query.get('stream') === 'true')
    throw new GatewayError(
      'not_supported',
      'A response that the gateway keeps is whole and is not streamed again. Leave "stream" out.',
      { param: 'stream' },
    );
  return jsonAnswer(response);
}

/** One page of a response's input items, the latest first unless `order=asc`. */
function inputPage({ input, response }: StoredResponse, query: URLSearchParams): Answer {
  const limit = Number(query.get('limit') ?? '20');
  if (!Number.isInteger(limit) || limit < 1 || limit > 100)
    throw invalidParamError('limit', 'a number from 1 to 100');
  const order = query.get('order') ?? 'desc';
  if (order !== 'asc' && order !== 'desc') throw invalidParamError('order', '"asc" or "desc"');
  const items = input.map((item, i) => listedItem(item, `in_${idOf(response).slice('resp_'.length)}_${i}`));
  if (order === 'desc') items.reverse();
  const after = query.get('after');
  const at = after === null ? -1 : items.findIndex((item) => item['id'] === after);
  if (after !== null && at === -1) throw invalidParamError('after', 'the id of an item of this list');
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

/** An item for a list: with an id and a type, and the content of messages in parts. */
function listedItem(item: JsonValue, id: string): JsonObject {
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

function invalidParamError(param: string, expected: string): GatewayError {
  return new GatewayError('invalid_request', `"${param}" must be ${expected}.`, { param });
}

/** Owner of stored responses. */
export interface Owner {
  readonly organisationId: string;
  readonly workspaceId: string;
}

/** A response and its input. */
export interface StoredResponse {
  readonly response: JsonObject;
  /** The items of the conversation before this request: inputs and outputs of earlier responses. */
  readonly before: readonly JsonValue[];
  /** The items of this request. */
  readonly input: readonly JsonValue[];
}

interface StoreSetup {
  readonly cache: Cache;
  readonly ttlMs: number;
  /** Upper bound of a response with its conversation; a larger one is not stored. */
  readonly maxBytes: number;
}

/** Stores responses by their id, and each output item by its own id, for a limited time. */
export class ResponseStore {
  private readonly setup: StoreSetup;

  constructor(setup: StoreSetup) {
    this.setup = setup;
  }

  /** Retention of responses, in seconds. */
  get seconds(): number {
    return this.setup.ttlMs / 1000;
  }

  response(owner: Owner, id: string): MaybePromise<StoredResponse | undefined> {
    const read = this.read(owner, 'response', id);
    const checked = (value: JsonValue | undefined): StoredResponse | undefined => {
      const found = asObject(value);
      const response = asObject(found?.['response']);
      if (found === undefined || response === undefined) return undefined;
      return { response, before: asList(found['before']), input: asList(found['input']) };
    };
    return 'then' in read ? read.then(({ value }) => checked(value)) : checked(read.value);
  }

  item(owner: Owner, id: string): MaybePromise<JsonObject | undefined> {
    const read = this.read(owner, 'item', id);
    return 'then' in read ? read.then(({ value }) => asObject(value)) : asObject(read.value);
  }

  /** True when the response is stored: once it resolves, every gateway of the store finds it. */
  keep(owner: Owner, stored: StoredResponse): MaybePromise<boolean> {
    const { cache, ttlMs, maxBytes } = this.setup;
    const bytes = Buffer.from(writeJson(stored));
    if (bytes.length > maxBytes) return false;
    const writes = itemsOf(stored).map(([id, item]) =>
      cache.set(keyOf(owner, 'item', id), Buffer.from(writeJson(item)), ttlMs),
    );
    writes.push(cache.set(keyOf(owner, 'response', idOf(stored.response)), bytes, ttlMs));
    const pending = writes.filter((write) => write !== undefined);
    return pending.length === 0 ? true : Promise.all(pending).then(() => true);
  }

  /** Deletes a response and its output items. */
  async delete(owner: Owner, stored: StoredResponse): Promise<void> {
    const { cache } = this.setup;
    await Promise.all([
      cache.delete(keyOf(owner, 'response', idOf(stored.response))),
      ...itemsOf(stored).map(([id]) => cache.delete(keyOf(owner, 'item', id))),
    ]);
  }

  private read(
    owner: Owner,
    kind: Kind,
    id: string,
  ): { value: JsonValue | undefined } | Promise<{ value: JsonValue | undefined }> {
    const found = this.setup.cache.get(keyOf(owner, kind, id));
    const parsed = (one: Awaited<typeof found>): { value: JsonValue | undefined } => ({
      value: one === undefined ? undefined : parseJson(Buffer.from(one.bytes).toString('utf8')),
    });
    return found !== undefined && 'then' in found ? found.then(parsed) : parsed(found);
  }
}

type Kind = 'response' | 'item';

/** Each part has its length in front, so that no two owners share a key. */
function keyOf({ organisationId, workspaceId }: Owner, kind: Kind, id: string): string {
  const owner = `${organisationId.length}:${organisationId}|${workspaceId.length}:${workspaceId}`;
  return sha256(`weir-stored-response-1|${kind}|${owner}|${id}`, 'base64url');
}

function itemsOf({ response }: StoredResponse): readonly (readonly [string, JsonValue])[] {
  return asList(response['output']).flatMap((item) => {
    const id = asObject(item)?.['id'];
    return typeof id === 'string' && id !== '' ? [[id, item] as const] : [];
  });
}

/** The id of a response; empty when it has none. */
export function idOf(response: JsonObject): string {
  const { id } = response;
  return typeof id === 'string' ? id : '';
}

/** The value when it is an object. */
export function asObject(value: JsonValue | undefined): JsonObject | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
}

/** The value when it is a list, else an empty one. */
function asList(value: JsonValue | undefined): readonly JsonValue[] {
  return Array.isArray(value) ? value : [];
}
