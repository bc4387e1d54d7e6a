import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { JsonObject, JsonValue } from '../../core/pipeline/context.ts';
import { writeJson } from '../../core/base/json.ts';
import { asObject, type Owner, type ResponseStore, type StoredResponse } from './response-store.ts';

/** What a request means once its references have been looked up. */
export interface ResolvedInput {
  readonly before: readonly JsonValue[];
  readonly input: readonly JsonValue[];
}

/** References of one request. */
const mostReferences = 1000;
/** What they may add up to. */
const mostBytes = 32 * 1024 * 1024;

/** The items of `input`; undefined for what is no input. */
export function inputItems(input: JsonValue | undefined): readonly JsonValue[] | undefined {
  if (input === undefined || input === null) return [];
  if (typeof input === 'string') return [{ type: 'message', role: 'user', content: input }];
  return Array.isArray(input) ? input : undefined;
}

/** The id of an item that stands for another one; its type may be left out. */
export function referenceOf(item: JsonValue): string | undefined {
  const object = asObject(item);
  const { type, id } = object ?? {};
  const isReference =
    type === 'item_reference' || ((type === undefined || type === null) && object?.['role'] === undefined);
  return isReference && typeof id === 'string' ? id : undefined;
}

/**
 * The conversation that a request goes on from, and its items with what they refer to in place of references. Throws
 * `invalid_request` for what is not kept.
 */
export async function resolveInput(
  store: ResponseStore,
  owner: Owner,
  previousId: string | undefined,
  items: readonly JsonValue[],
): Promise<ResolvedInput> {
  let before: readonly JsonValue[] = [];
  let bytes = 0;
  if (previousId !== undefined) {
    const previous = await store.response(owner, previousId);
    if (previous === undefined) throw notKept('previous_response_id', 'response', previousId, store);
    before = conversationOf(previous);
  }
  const input: JsonValue[] = [];
  const known = new Map<string, JsonObject>();
  for (const [i, item] of items.entries()) {
    const id = referenceOf(item);
    if (id === undefined) {
      input.push(item);
      continue;
    }
    const param = `input[${i}]`;
    let found = known.get(id);
    if (found === undefined) {
      if (known.size === mostReferences)
        throw new GatewayError(
          'invalid_request',
          `"input" refers to more than ${mostReferences} items. Send the items themselves.`,
          { param },
        );
      found = await store.item(owner, id);
      if (found === undefined) throw notKept(param, 'item', id, store);
      known.set(id, found);
      bytes += writeJson(found).length;
      if (bytes > mostBytes)
        throw new GatewayError(
          'invalid_request',
          `What "input" refers to is larger than ${mostBytes} bytes. Send fewer items.`,
          { param },
        );
    }
    input.push(found);
  }
  return { before, input };
}

/** Everything that was said until the end of a response. */
function conversationOf({ before, input, response }: StoredResponse): readonly JsonValue[] {
  const { output } = response;
  return [...before, ...input, ...(Array.isArray(output) ? output : [])];
}

function notKept(
  param: string,
  what: 'response' | 'item',
  id: string,
  { seconds }: ResponseStore,
): GatewayError {
  const shown = id.slice(0, 100);
  return new GatewayError(
    'invalid_request',
    `${param}: no ${what} "${shown}" is kept for this workspace. It was made with "store": false or by a provider that keeps its own, was deleted, was too large to keep, or is older than ${seconds} s. Send the whole conversation in "input".`,
    { param },
  );
}
