import { isJsonObject, type JsonObject, type JsonValue, parseJson, writeJson } from '../../core/base/json.ts';

/** Reads and writes JSON-RPC messages. */
export const rpc = {
  readMessage,
  readMessages,
  message: messageOf,
  changed: changedMessage,
  errorResponse,
  cancellation,
  params: paramsOf,
  progressToken: progressTokenOf,
  isId,
};

/** Id of a request. Numbers beyond 2^53 are BigInts. */
export type RpcId = string | number | bigint;

/** One message of JSON-RPC 2.0. */
export interface RpcMessage {
  readonly kind: 'request' | 'notification' | 'response';
  /** Undefined for a notification, and for a response to what could not be read. */
  readonly id: RpcId | undefined;
  /** Empty for a response. */
  readonly method: string;
  readonly body: JsonObject;
  /** The message as JSON without line ends. */
  readonly text: string;
}

/** Most messages of one body. */
const maxBatch = 100;

/** The message in a text; undefined for anything else. */
function readMessage(text: string): RpcMessage | undefined {
  const body = parseJson(text);
  // Line ends in JSON are white space: within strings they are escaped.
  return body === undefined ? undefined : describe(body, () => text.replace(/[\r\n]+/g, ' '));
}

/** The messages of a body: one, or a list of up to 100. Undefined for anything else, the empty list included. */
function readMessages(bytes: Uint8Array): readonly RpcMessage[] | undefined {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8');
  const body = parseJson(text);
  if (!Array.isArray(body)) {
    const message = body === undefined ? undefined : describe(body, () => text.replace(/[\r\n]+/g, ' '));
    return message === undefined ? undefined : [message];
  }
  if (body.length === 0 || body.length > maxBatch) return undefined;
  const messages: RpcMessage[] = [];
  for (const item of body) {
    const message = describe(item, () => writeJson(item));
    if (message === undefined) return undefined;
    messages.push(message);
  }
  return messages;
}

/** The message with this body, which is a valid one. */
function messageOf(body: JsonObject): RpcMessage {
  const message = describe(body, () => writeJson(body));
  if (message === undefined) throw new TypeError('This is no message of JSON-RPC.');
  return message;
}

/** The message with other members; undefined when it is nested too deeply to be written. */
function changedMessage({ body }: RpcMessage, changes: JsonObject): RpcMessage | undefined {
  const changed = { ...body, ...changes };
  return describe(changed, () => writeJson(changed));
}

/** A response with an error. */
function errorResponse(id: RpcId, code: number, message: string): RpcMessage {
  return messageOf({ jsonrpc: '2.0', id, error: { code, message } });
}

/** The notification that a request is no longer waited for. */
function cancellation(requestId: RpcId, reason: string): RpcMessage {
  return messageOf({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId, reason } });
}

/** The `params` of a request or notification; empty when they are absent or positional. */
function paramsOf({ body }: RpcMessage): JsonObject {
  const { params } = body as { params?: JsonValue };
  return isJsonObject(params) ? params : {};
}

/** Token by which a request wants to hear of its progress. */
function progressTokenOf(message: RpcMessage): RpcId | undefined {
  const meta = paramsOf(message)['_meta'];
  const token = isJsonObject(meta) ? meta['progressToken'] : undefined;
  return isId(token) ? token : undefined;
}

/** Whether the value can identify a request or its progress. */
function isId(value: JsonValue | undefined): value is RpcId {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint';
}

function describe(value: JsonValue, write: () => string): RpcMessage | undefined {
  if (!isJsonObject(value) || value['jsonrpc'] !== '2.0') return undefined;
  const body = value;
  const { id, method = '' } = body as { id?: JsonValue; method?: JsonValue };
  const kind = kindOf(body);
  if (kind === undefined || typeof method !== 'string') return undefined;
  try {
    return { kind, id: isId(id) ? id : undefined, method, body, text: write() };
  } catch {
    // It is nested too deeply to be written.
    return undefined;
  }
}

function kindOf(body: JsonObject): RpcMessage['kind'] | undefined {
  const { id } = body;
  if ('method' in body) {
    if (id === undefined) return 'notification';
    return isId(id) ? 'request' : undefined;
  }
  const isNamed = isId(id) || id === undefined || id === null;
  return isNamed && ('result' in body || 'error' in body) ? 'response' : undefined;
}
