import type { FrameCodec } from '../../core/dialects/dialect.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Answer } from '../../core/pipeline/answer.ts';
import {
  type AttemptContext,
  defineKey,
  type HookResult,
  type JsonObject,
  type JsonValue,
} from '../../core/pipeline/context.ts';
import { keptAnswer } from '../../core/pipeline/keys.ts';
import { parseJson, writeJson } from '../../core/base/json.ts';
import { definePlugin, Type } from '../../core/pipeline/plugin.ts';
import {
  asObject,
  idOf,
  KeptStream,
  type Owner,
  ResponseStore,
  StoredRequests,
  type StoredResponse,
} from './response-store.ts';

/** Input of a request with its references resolved. */
interface ResolvedInput {
  readonly before: readonly JsonValue[];
  readonly input: readonly JsonValue[];
}

/** Upper bound of references in one request. */
const maxReferences = 1000;
/** Upper bound of the bytes of the referenced items, together. */
const maxBytes = 32 * 1024 * 1024;

/** The items of `input`; undefined for an invalid one. */
function inputItems(input: JsonValue | undefined): readonly JsonValue[] | undefined {
  if (input === undefined || input === null) return [];
  if (typeof input === 'string') return [{ type: 'message', role: 'user', content: input }];
  return Array.isArray(input) ? input : undefined;
}

/** The id in an item reference, whose type may be omitted; undefined for other items. */
function referenceOf(item: JsonValue): string | undefined {
  const object = asObject(item);
  const { type, id } = object ?? {};
  const isReference =
    type === 'item_reference' || ((type === undefined || type === null) && object?.['role'] === undefined);
  return isReference && typeof id === 'string' ? id : undefined;
}

/**
 * The conversation that a request continues, and its items with references replaced by the stored items. Throws
 * `invalid_request` for a reference to something that is not stored.
 */
async function resolveInput(
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
      if (known.size === maxReferences)
        throw new GatewayError(
          'invalid_request',
          `"input" refers to more than ${maxReferences} items. Send the items themselves.`,
          { param },
        );
      found = await store.item(owner, id);
      if (found === undefined) throw notKept(param, 'item', id, store);
      known.set(id, found);
      bytes += writeJson(found).length;
      if (bytes > maxBytes)
        throw new GatewayError(
          'invalid_request',
          `The items that "input" refers to are larger than ${maxBytes} bytes. Send fewer items.`,
          { param },
        );
    }
    input.push(found);
  }
  return { before, input };
}

/** The whole conversation up to the end of a response. */
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

/** Input of the present attempt, when its answer will be stored. */
const askedKey = defineKey<ResolvedInput | undefined>('stored-response-asked');

/** Stores responses for providers that keep no state, so that later requests can refer to them. */
export default definePlugin({
  name: 'stored-responses',
  description:
    'Keeps answers of the Responses API for a limited time if the provider speaks another API, so that `previous_response_id` and `item_reference` work there, and serves `GET` and `DELETE /responses/{id}` and `GET /responses/{id}/input_items` for them. They are kept in the store of `storage.cache`: with Redis, every replica finds them. `store: false` keeps nothing. Providers that speak the Responses API keep their own.',
  schema: Type.Object(
    {
      ttl: Type.Optional(
        Type.Integer({
          default: 86_400,
          minimum: 60,
          maximum: 2_592_000,
          description: 'Retention of a response, in seconds.',
        }),
      ),
      max_bytes: Type.Optional(
        Type.Integer({
          default: 1_048_576,
          minimum: 1024,
          maximum: 67_108_864,
          description:
            'Largest response, including its conversation, that is kept. `storage.cache.max_value_bytes` limits it as well, and `storage.cache.max_bytes` limits all of them together with cached answers.',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  // Without `key`, one workspace would find the responses of another.
  capabilities: { needs: ['key'] },
  create({ ttl = 86_400, max_bytes: maxBytes = 1_048_576 }, { cache, dialects }) {
    const store = new ResponseStore({ cache, ttlMs: ttl * 1000, maxBytes });
    const requests = new StoredRequests(store);
    const frames = dialects.get('openai-responses')?.frames;

    const keep = (context: AttemptContext, asked: ResolvedInput, response: JsonObject | undefined) => {
      if (response === undefined || idOf(response) === '') return false;
      const isWhole = response['status'] === 'completed' || response['status'] === 'incomplete';
      return isWhole && store.keep(ownerOf(context), { response, ...asked });
    };

    const attempt = (context: AttemptContext): HookResult => {
      context.set(askedKey, undefined);
      context.set(keptAnswer, undefined);
      if (context.endpoint.dialect !== 'openai-responses' || !context.attempt.translates('responses'))
        return undefined;
      if (context.endpoint.id !== 'responses') return requests.unknown(context);
      const body = asObject(context.attempt.body.json);
      const items = inputItems(body?.['input']);
      if (body === undefined) return undefined;
      const previous = body['previous_response_id'] ?? '';
      if (items === undefined) throw invalidParamError('input', 'be a string or a list of items');
      if (typeof previous !== 'string')
        throw invalidParamError('previous_response_id', 'be the id of a response');
      const previousId = previous === '' ? undefined : previous;
      const isKept = body['store'] === true || (body['store'] !== false && !wantsNoBodies(context));
      const note = (asked: ResolvedInput): void => {
        if (!isKept) return;
        // The gateway stores the response, so the provider need not.
        if (body['store'] !== undefined) context.attempt.body.remove(['store']);
        context.set(askedKey, asked);
        context.set(keptAnswer, { previousResponseId: previousId ?? null });
      };
      if (previousId === undefined && !items.some((item) => referenceOf(item) !== undefined)) {
        note({ before: [], input: items });
        return undefined;
      }
      return resolveInput(store, ownerOf(context), previousId, items).then((asked) => {
        const all: JsonValue[] = [...asked.before, ...asked.input];
        context.attempt.body.set(['input'], all);
        context.attempt.body.remove(['previous_response_id']);
        context.attempt.body.hold(context.attempt.body.text.length);
        note(asked);
        return undefined;
      });
    };

    return {
      request: (context) => requests.answer(context),
      attempt,
      attempted(context, answer) {
        const asked = context.get(askedKey);
        const { body } = answer;
        if (asked === undefined || answer.status !== 200 || body === null || frames === undefined)
          return undefined;
        if (Buffer.isBuffer(body)) {
          // The provider may have sent the whole stream at once.
          const response = context.facts.stream
            ? finalResponse(frames, body)
            : asObject(parseJson(body.toString('utf8')));
          const kept = keep(context, asked, response);
          return typeof kept === 'boolean' ? undefined : kept.then((): Answer | undefined => undefined);
        }
        const whole = (bytes: Buffer) => keep(context, asked, finalResponse(frames, bytes));
        return { ...answer, body: new KeptStream(body, maxBytes, whole) };
      },
    };
  },
});

/** The caller forbids logging of its bodies: then a response is stored only with an explicit `store: true`. */
function wantsNoBodies(context: AttemptContext): boolean {
  return context.service('debug')?.toLowerCase() === 'false';
}

function invalidParamError(param: string, rule: string): GatewayError {
  return new GatewayError('invalid_request', `${param} must ${rule}.`, { param });
}

/** The response in the final event of a stream; undefined without one. */
function finalResponse(frames: FrameCodec, bytes: Buffer): JsonObject | undefined {
  try {
    const reader = frames.reader('responses');
    const whole = frames.assemble('responses', [...reader.push(bytes), ...reader.finish()]);
    return asObject(parseJson(Buffer.from(whole).toString('utf8')));
  } catch (error) {
    // An unreadable answer is not stored; the client receives it unchanged.
    if (GatewayError.is(error)) return undefined;
    throw error;
  }
}

function ownerOf({ facts }: Pick<AttemptContext, 'facts'>): Owner {
  return { organisationId: facts.organisationId, workspaceId: facts.workspaceId };
}
