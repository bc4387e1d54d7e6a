import { isJsonObject, parseJson, writeJson } from '../../../core/base/json.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import type { McpCall, McpHandler, McpRequest, McpUpstream } from '../../../core/ports/mcp.ts';
import type { ApiCall } from './api-call.ts';
import { ApiTools, type ToolSurroundings } from './api-tools.ts';
import { CatalogueSource, type OpenapiTarget } from './catalogue-source.ts';
import { type JsonRecord } from './document.ts';

/** Protocol versions, the newest first. */
const versions = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'] as const;
/** Versions in which one body may hold several messages, and the most of them. */
const batched: ReadonlySet<string | undefined> = new Set([undefined, '2025-03-26', '2024-11-05']);
const maxBatch = 32;

/** An error of JSON-RPC. */
class RpcError extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

const invalidJson = -32_700;
const invalidRequest = -32_600;
const unknownMethod = -32_601;
const invalidParams = -32_602;

/** The answer: JSON, or nothing. */
interface Reply {
  readonly status: number;
  readonly body: Buffer | null;
}

/**
 * An HTTP API behind the protocol of tools: a server over Streamable HTTP without sessions, which answers here. Every
 * answer is one JSON body; there is no stream to open.
 */
export class OpenapiUpstream implements McpUpstream {
  readonly #target: OpenapiTarget;
  readonly #around: ToolSurroundings;
  readonly #source: CatalogueSource;
  readonly #calls = new Set<OpenapiCall>();
  #tools: Promise<ApiTools> | undefined;

  constructor(target: OpenapiTarget, around: ToolSurroundings) {
    this.#target = target;
    this.#around = around;
    this.#source = new CatalogueSource(target, around);
  }

  send(request: McpRequest, handler: McpHandler): McpCall {
    const call = new OpenapiCall(request, handler, (ended) => this.#calls.delete(ended));
    this.#calls.add(call);
    call.run(() => this.#load());
    return call;
  }

  close(): Promise<void> {
    this.#source.close();
    const reason = new GatewayError('shutting_down', 'The gateway is shutting down; send the request again.');
    for (const call of this.#calls) call.abort(reason);
    return Promise.resolve();
  }

  #load(): Promise<ApiTools> {
    this.#tools ??= this.#source.get().then(
      (catalogue) => new ApiTools(catalogue, this.#target, this.#around),
      (error: unknown) => {
        // The source knows when to read again.
        this.#tools = undefined;
        throw error;
      },
    );
    return this.#tools;
  }
}

/** One request, and the calls of the API that it makes. */
class OpenapiCall implements McpCall {
  readonly #request: McpRequest;
  readonly #handler: McpHandler;
  readonly #ended: (call: OpenapiCall) => void;
  readonly #apiCalls = new Set<ApiCall>();
  #isOver = false;
  #isPaused = false;

  constructor(request: McpRequest, handler: McpHandler, ended: (call: OpenapiCall) => void) {
    this.#request = request;
    this.#handler = handler;
    this.#ended = ended;
  }

  /** Answers later, never within `send`. */
  run(load: () => Promise<ApiTools>): void {
    void Promise.resolve()
      .then(() => this.#reply(load))
      .then(
        (reply) => this.#answer(reply),
        (error: unknown) => this.abort(GatewayError.is(error) ? error : internal(error)),
      );
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#end();
  }

  abort(error: GatewayError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    for (const call of this.#apiCalls) call.abort(error);
    this.#ended(this);
    this.#handler.fail(error);
  }

  #answer({ status, body }: Reply): void {
    if (this.#isOver) return;
    const contentType = body === null ? '' : 'application/json';
    this.#handler.head({ status, sessionId: undefined, contentType, wwwAuthenticate: undefined });
    this.#isPaused = body !== null && !this.#handler.data(body);
    if (!this.#isPaused) this.#end();
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#ended(this);
    this.#handler.end();
  }

  async #reply(load: () => Promise<ApiTools>): Promise<Reply> {
    const { method, body, protocolVersion } = this.#request;
    if (method !== 'POST') return { status: 405, body: null };
    const sent = parseJson(Buffer.from(body ?? []).toString('utf8'));
    if (sent === undefined) return refusal(new RpcError(invalidJson, 'The body is no JSON.'));
    if (!Array.isArray(sent)) {
      if (!isMessage(sent)) return refusal(notAMessage());
      const answer = await this.#answerTo(sent, load);
      return answer === undefined ? { status: 202, body: null } : ok(answer);
    }
    if (!batched.has(protocolVersion) || sent.length === 0 || sent.length > maxBatch) {
      const which = [...batched].filter((version) => version !== undefined).join(' and ');
      const message = `Send one message at a time, or with the versions ${which} a list of 1 to ${maxBatch}.`;
      return refusal(new RpcError(invalidRequest, message));
    }
    const answers = await Promise.all(
      sent.map(async (one) =>
        isMessage(one) ? await this.#answerTo(one, load) : errorTo(null, notAMessage()),
      ),
    );
    const told = answers.filter((one) => one !== undefined);
    return told.length === 0 ? { status: 202, body: null } : ok(`[${told.join(',')}]`);
  }

  /** JSON of the response; undefined for a notification and for a response of the client. */
  async #answerTo(message: JsonRecord, load: () => Promise<ApiTools>): Promise<string | undefined> {
    const { id, method } = message;
    if (typeof method !== 'string' || id === undefined) return undefined;
    const { params = {} } = message;
    try {
      if (!isJsonObject(params)) throw new RpcError(invalidParams, '"params" must be an object.');
      return `{"jsonrpc":"2.0","id":${writeJson(id)},"result":${await this.#result(method, params, load)}}`;
    } catch (error) {
      if (error instanceof RpcError) return errorTo(id, error);
      throw error;
    }
  }

  async #result(method: string, params: JsonRecord, load: () => Promise<ApiTools>): Promise<string> {
    switch (method) {
      case 'ping':
        return '{}';
      case 'initialize': {
        const { serverName, serverVersion } = await load();
        const protocolVersion = versions.find((one) => one === params['protocolVersion']) ?? versions[0];
        const serverInfo = { name: serverName, version: serverVersion };
        return writeJson({ protocolVersion, capabilities: { tools: {} }, serverInfo });
      }
      case 'tools/list': {
        const page = (await load()).page(params['cursor']);
        if (page === undefined)
          throw new RpcError(invalidParams, 'The cursor is unknown; begin without one.');
        return page;
      }
      case 'tools/call':
        return await this.#callTool(params, await load());
      default:
        throw new RpcError(unknownMethod, 'Method not found: the server has tools alone.');
    }
  }

  async #callTool({ name, arguments: args = {} }: JsonRecord, tools: ApiTools): Promise<string> {
    if (typeof name !== 'string') throw new RpcError(invalidParams, '"name" of the tool is missing.');
    if (!isJsonObject(args)) throw new RpcError(invalidParams, '"arguments" must be an object.');
    const tool = tools.find(name);
    if (tool === undefined) throw new RpcError(invalidParams, `Unknown tool: ${name.slice(0, 200)}`);
    const onCall = (call: ApiCall): void => {
      this.#apiCalls.add(call);
      const forget = (): void => void this.#apiCalls.delete(call);
      call.answer.then(forget, forget);
    };
    if (this.#isOver) throw new Error('The call is over.');
    return writeJson(await tools.call({ tool, args, request: this.#request, onCall }));
  }
}

function internal(cause: unknown): GatewayError {
  return new GatewayError('internal', 'The call of an API failed within the gateway.', { cause });
}

/** Requests, notifications and responses of JSON-RPC 2.0, with ids as the protocol has them. */
function isMessage(value: unknown): value is JsonRecord {
  if (!isJsonObject(value) || value['jsonrpc'] !== '2.0') return false;
  const { id, method } = value;
  const hasId = typeof id === 'string' || typeof id === 'number' || typeof id === 'bigint';
  if (method === undefined) return hasId && ('result' in value || 'error' in value);
  return typeof method === 'string' && (id === undefined || hasId);
}

function notAMessage(): RpcError {
  return new RpcError(invalidRequest, 'It is no message of JSON-RPC 2.0 with "jsonrpc", "method" and "id".');
}

function errorTo(id: unknown, { code, message }: RpcError): string {
  return writeJson({ jsonrpc: '2.0', id, error: { code, message } });
}

function ok(json: string): Reply {
  return { status: 200, body: Buffer.from(json) };
}

function refusal(error: RpcError): Reply {
  return { status: 400, body: Buffer.from(errorTo(null, error)) };
}
