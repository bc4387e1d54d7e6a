import { isJsonObject } from '../../core/base/json.ts';
import { GatewayError, type JsonObject, type JsonValue } from '../../core/pipeline/plugin.ts';

/** Reads JSON-RPC messages. */
export const rpcMessages = { read: readMessages, textOf, refusedCapability };

/** Id of a JSON-RPC request. */
export type RpcId = string | number;

/** One JSON-RPC message of a client. */
export interface RpcMessage {
  readonly kind: 'request' | 'notification' | 'response';
  /** Empty for a response. */
  readonly method: string;
  /** Undefined for a notification. */
  readonly id: RpcId | undefined;
  readonly params: JsonObject;
  readonly json: JsonObject;
}

/** The messages of one `POST`. */
export interface RpcBody {
  readonly messages: readonly RpcMessage[];
  /** They stand in a list, as the protocol allowed until 2025-03-26. */
  readonly isBatch: boolean;
}

/** Most messages of one list. */
const maxBatch = 50;
const longestMethod = 256;
const longestId = 1_024;

/** Reads the messages of a body. Throws `invalid_json` and `mcp_message_invalid`, with the place of the mistake. */
function readMessages(json: JsonValue | undefined): RpcBody {
  if (json === undefined)
    throw new GatewayError('invalid_json', 'The body is no valid JSON. Send one JSON-RPC message.');
  if (!Array.isArray(json)) return { messages: [readMessage(json, '')], isBatch: false };
  if (json.length === 0 || json.length > maxBatch)
    throw invalid(`The list holds ${json.length} messages; 1 to ${maxBatch} are allowed.`);
  return { messages: json.map((one, index) => readMessage(one, ` at /${index}`)), isBatch: true };
}

function readMessage(json: JsonValue, place: string): RpcMessage {
  if (!isJsonObject(json)) throw invalid(`The message${place} is no JSON object.`);
  if (json['jsonrpc'] !== '2.0') throw invalid(`The message${place} has no "jsonrpc": "2.0".`);
  const id = readId(json, place);
  const { method, params = {} } = json;
  if (method === undefined) {
    if (id === undefined || 'result' in json === 'error' in json)
      throw invalid(
        `The message${place} has no "method", so it is a response: it needs an "id", and one of "result" and "error".`,
      );
    return { kind: 'response', method: '', id, params: {}, json };
  }
  if (typeof method !== 'string' || method === '' || method.length > longestMethod)
    throw invalid(`The "method" of the message${place} is no text of 1 to ${longestMethod} characters.`);
  if (!isJsonObject(params)) throw invalid(`The "params" of the message${place} are no JSON object.`);
  return { kind: id === undefined ? 'notification' : 'request', method, id, params, json };
}

function readId({ id }: JsonObject, place: string): RpcId | undefined {
  if (id === undefined) return undefined;
  if (typeof id === 'string' && id.length <= longestId) return id;
  if (typeof id === 'number' && Number.isSafeInteger(id)) return id;
  throw invalid(
    `The "id" of the message${place} is no text of at most ${longestId} characters and no safe integer.`,
  );
}

function invalid(message: string): GatewayError {
  return new GatewayError('mcp_message_invalid', message);
}

/** A text in an object; undefined for another type. */
function textOf(object: JsonObject, name: string): string | undefined {
  const value = Object.hasOwn(object, name) ? object[name] : undefined;
  return typeof value === 'string' ? value : undefined;
}

/** A refusal of something that a message asks for: a tool, a prompt, a resource. */
function refusedCapability(what: string, why: string): GatewayError {
  return new GatewayError('mcp_capability_refused', `${what} cannot be used: ${why}.`);
}
