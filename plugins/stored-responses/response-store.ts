import type { JsonObject, JsonValue, MaybePromise } from '../../core/pipeline/context.ts';
import { parseJson, writeJson } from '../../core/base/json.ts';
import type { Cache } from '../../core/ports/cache.ts';
import { sha256 } from '../../core/base/sha256.ts';

/** Whose responses are meant. */
export interface Owner {
  readonly organisationId: string;
  readonly workspaceId: string;
}

/** A response as it was answered, and what it was asked with. */
export interface StoredResponse {
  readonly response: JsonObject;
  /** The items of the conversation before this request: inputs and outputs of earlier responses. */
  readonly before: readonly JsonValue[];
  /** The items of this request. */
  readonly input: readonly JsonValue[];
}

export interface StoreSetup {
  readonly cache: Cache;
  readonly ttlMs: number;
  /** A response that takes more with its conversation is not kept. */
  readonly maxBytes: number;
}

/** Keeps responses by their id, and each item that a model said by its own, for a time. */
export class ResponseStore {
  private readonly setup: StoreSetup;

  constructor(setup: StoreSetup) {
    this.setup = setup;
  }

  /** How long responses are kept, in seconds. */
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

  /** True when it could be kept: once it resolves, every gateway of the store finds it. */
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

  /** Forgets a response and what the model said in it. */
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

/** Lengths stand before what a caller chooses, so that no two owners have one key. */
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
export function asList(value: JsonValue | undefined): readonly JsonValue[] {
  return Array.isArray(value) ? value : [];
}
