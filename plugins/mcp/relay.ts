import { isJsonObject, writeJson } from '../../core/base/json.ts';
import { wholeCharacters } from '../../core/base/bytes.ts';
import type { Answer, StreamSource } from '../../core/pipeline/answer.ts';
import { rpcRequestId } from '../../core/pipeline/keys.ts';
import {
  GatewayError,
  type JsonObject,
  type JsonValue,
  type RequestContext,
  type Scope,
} from '../../core/pipeline/plugin.ts';
import { rpcError } from '../../core/errors/rpc-error.ts';
import { type ToolCall, toolCallGates } from '../../core/pipeline/tool-calls.ts';
import type { HeaderList } from '../../core/ports/header-list.ts';
import type { McpHead } from '../../core/ports/mcp.ts';
import { Approvals } from './approvals.ts';
import { callRecord } from './call-record.ts';
import { matchesTemplate, OfferFilter, offerLists } from './lists.ts';
import { type RpcMessage, rpcMessages } from './messages.ts';
import type { Answered, Asked, ServerLinks } from './server-link.ts';
import { changedBody, ChangedEvents, type ChangeMessage, messagesIn, PassedStream } from './server-answer.ts';
import type { McpServer } from './servers.ts';
import type { Sessions } from './sessions.ts';

/** Parts that relaying needs. */
export interface RelayParts {
  readonly scope: Scope;
  readonly sessions: Sessions;
  readonly links: ServerLinks;
  readonly maxMessageBytes: number;
}

/** Largest error of a server that is passed on. */
const maxErrorBytes = 65_536;

/** Relays between a client and one server: messages pass as they are, but for what the gateway has to judge or change. */
export class Relay {
  readonly #parts: RelayParts;
  readonly #approvals: Approvals;
  /** Lists as callers may see them. */
  readonly filter: OfferFilter;
  /** Streams of what servers say by themselves; they end when the configuration is replaced. */
  readonly #listening = new Set<ListenStream>();

  constructor(parts: RelayParts) {
    this.#parts = parts;
    this.#approvals = new Approvals(parts);
    this.filter = new OfferFilter(this.#approvals);
  }

  /** Answers a request for this server. */
  async answer(asked: Asked): Promise<Answer> {
    const { context, server } = asked;
    const { method, facts } = context;
    facts.aiService = 'mcp';
    facts.mcpServer = server.slug;
    if (method === 'POST') return callRecord.answer(context, await this.#post(asked));
    callRecord.method(context);
    if (method === 'GET') return await this.#listen(asked);
    return await this.#end(asked);
  }

  /** Ends the streams that would go on for ever; clients open them again. */
  endStreams(): void {
    for (const stream of this.#listening) stream.finish();
  }

  async #post(asked: Asked): Promise<Answer> {
    const { context } = asked;
    if (!context.body.loaded) await context.body.load();
    context.facts.requestBytes = context.body.bytes.length;
    const said = rpcMessages.read(context.json);
    callRecord.messages(context, said);
    const { messages, isBatch } = said;
    if (isBatch) return await this.#batch(asked, messages);
    const message = messages[0] as RpcMessage;
    if (message.kind === 'request' && message.id !== undefined) context.set(rpcRequestId, message.id);
    if (message.method !== 'initialize') return await this.pass(asked, message, context.body.bytes);
    const body = context.body.bytes;
    const answered = await this.#parts.links.send(asked, { method: 'POST', body, lastEventId: undefined });
    return await this.#greeted(asked, message, answered);
  }

  /**
   * Passes a message on, and its answer back. `body` holds its bytes, where they are known; `wrap` changes what the server
   * says meanwhile.
   */
  async pass(asked: Asked, message: RpcMessage, body?: Buffer, wrap?: ChangeMessage): Promise<Answer> {
    const { change, given } = await this.#prepare(asked, message);
    const sent = given === undefined ? body : undefined;
    const isListening = message.method === 'subscriptions/listen';
    const answered = await this.#parts.links.send(asked, {
      method: 'POST',
      body: sent ?? Buffer.from(writeJson(message.json)),
      lastEventId: undefined,
      isListening,
      repeated: given === undefined ? message : { ...message, given },
    });
    const changes = [change && this.#onlyAnswers(asked, change), wrap].filter((one) => one !== undefined);
    const all = inTurn(changes);
    const { head, body: stream } = answered;
    if (!isListening || head.status >= 400 || head.contentType !== 'text/event-stream')
      return await this.#passOn(asked, answered, all);
    const source = all === undefined ? stream : new ChangedEvents(stream, all, this.#parts.maxMessageBytes);
    return this.#streaming(asked.context, head, source);
  }

  /** The server has announced other tools: what it said of them before is not relied on. */
  forgetTools(server: McpServer): void {
    this.#approvals.forget(server);
  }

  /** Each message for itself; the answers in one list, as the versions of the protocol that allow lists have it. */
  async #batch(asked: Asked, messages: readonly RpcMessage[]): Promise<Answer> {
    const { context } = asked;
    const { maxMessageBytes, links } = this.#parts;
    const found: JsonObject[] = [];
    for (const message of messages) {
      if (message.method === 'initialize')
        throw new GatewayError('mcp_message_invalid', '"initialize" cannot be in a list. Send it alone.');
      let prepared: Prepared;
      try {
        prepared = await this.#prepare(asked, message);
      } catch (error) {
        // Messages before it have been sent, and their answers must not be lost.
        if (!GatewayError.is(error) || message.id === undefined) throw error;
        found.push(errorMessage(context, message.id, error));
        continue;
      }
      const body = Buffer.from(writeJson(message.json));
      const { head, body: answer } = await links.send(asked, {
        method: 'POST',
        body,
        lastEventId: undefined,
        repeated: { ...message, given: prepared.given },
      });
      const { change } = prepared;
      const bytes = await answer.collect(context, maxMessageBytes);
      if (bytes.length === 0) continue;
      for (const one of messagesIn(bytes, head.contentType))
        found.push((await (change && this.#onlyAnswers(asked, change))?.(one)) ?? one);
    }
    if (found.length === 0) return empty(202);
    return {
      status: 200,
      headers: ['content-type', 'application/json'],
      body: Buffer.from(writeJson(found)),
      source: 'provider',
    };
  }

  /** Refuses a message that asks for something that is off; says how its answer has to be changed, if it has to. */
  async #prepare(asked: Asked, message: RpcMessage): Promise<Prepared> {
    const { server, context } = asked;
    const { method, params } = message;
    if (message.kind !== 'request') return asItIs;
    if (Object.hasOwn(offerLists, method))
      return server.hasSwitches ? { ...asItIs, change: (answer) => this.#listed(server, answer) } : asItIs;
    if (method !== 'tools/call') {
      requireOn(server, method, params);
      return asItIs;
    }
    const call = toolCall(server, params);
    context.facts.mcpTool = call.tool;
    await this.#approvals.require(asked, call.tool);
    const given = call.arguments;
    // Throws where guardrails apply and the pipeline runs none.
    this.#parts.scope.router.toolGuardrails(context, call);
    for (const gate of toolCallGates(context)) await gate.before?.(call);
    const change = resultChange(asked, call);
    if (call.arguments === given) return { change, given: undefined };
    params['arguments'] = call.arguments;
    return { change, given };
  }

  #listed(server: McpServer, answer: JsonObject): JsonObject {
    const { result } = answer;
    return isJsonObject(result) ? { ...answer, result: this.filter.ofResult(server, result) } : answer;
  }

  /** The session begins where the server opens one. */
  async #greeted(asked: Asked, message: RpcMessage, answered: Answered): Promise<Answer> {
    const { context, caller, server } = asked;
    const { head } = answered;
    const bytes = await answered.body.collect(context, this.#parts.maxMessageBytes);
    const headers = ['content-type', head.contentType];
    if (head.status === 200) {
      const greeted = greetingResult(messagesIn(bytes, head.contentType), message.json['id']);
      if (head.sessionId !== undefined && greeted !== undefined) {
        const { version } = greeted;
        const begun = { slug: server.slug, greeting: message.params, version, upstream: head.sessionId };
        headers.push('mcp-session-id', this.#parts.sessions.begin(begun, caller));
      }
    }
    return { status: head.status, headers, body: bytes, source: 'provider' };
  }

  async #passOn(asked: Asked, { head, body }: Answered, change: ChangeMessage | undefined): Promise<Answer> {
    const { context } = asked;
    const { maxMessageBytes } = this.#parts;
    if (head.status >= 400) return await failed(context, { head, body });
    if (head.contentType === '') {
      await body.collect(context, maxErrorBytes);
      return empty(head.status);
    }
    const headers: HeaderList = ['content-type', head.contentType];
    if (change === undefined) {
      // An answer in one piece leaves in one piece.
      const arrived = head.contentType === 'application/json' ? body.arrived() : undefined;
      return { status: head.status, headers, body: arrived ?? body, source: 'provider' };
    }
    if (head.contentType === 'text/event-stream') {
      const changed = new ChangedEvents(body, change, maxMessageBytes);
      return { status: head.status, headers, body: changed, source: 'provider' };
    }
    const bytes = await body.collect(context, maxMessageBytes);
    return { status: head.status, headers, body: await changedBody(bytes, change), source: 'provider' };
  }

  /** Requests and notifications of the server stay as they are. */
  #onlyAnswers({ server }: Asked, change: ChangeMessage): ChangeMessage {
    return (message) => {
      if ('result' in message && !('method' in message)) return change(message);
      this.#approvals.heard(server, message);
      return message;
    };
  }

  async #listen(asked: Asked): Promise<Answer> {
    const { context, server } = asked;
    const lastEventId = context.header('last-event-id');
    const asking = { method: 'GET', body: null, lastEventId, isListening: true } as const;
    const { head, body } = await this.#parts.links.send(asked, asking);
    if (head.status >= 400) return await failed(context, { head, body });
    // A stream that is taken up again brings answers, whose requests are not known here.
    const resultOf = (): ChangeMessage | undefined => resultChange(asked, callOf(server, '', emptyArguments));
    const change: ChangeMessage = async (message) => {
      const listed = this.#listed(server, message);
      return (await resultOf()?.(listed)) ?? listed;
    };
    const source =
      server.hasSwitches || resultOf() !== undefined
        ? new ChangedEvents(body, this.#onlyAnswers(asked, change), this.#parts.maxMessageBytes)
        : body;
    return this.#streaming(context, head, source);
  }

  #streaming(context: RequestContext, { status, contentType }: McpHead, source: StreamSource): Answer {
    callRecord.openStream(context, this.#parts.scope.clock.monotonic());
    const stream = new ListenStream(source, () => this.#listening.delete(stream));
    this.#listening.add(stream);
    return { status, headers: ['content-type', contentType], body: stream, source: 'provider' };
  }

  async #end(asked: Asked): Promise<Answer> {
    const { session, context } = asked;
    if (session === undefined)
      throw new GatewayError('mcp_message_invalid', 'DELETE ends a session: send its id as Mcp-Session-Id.');
    const { head, body } = await this.#parts.links.send(asked, {
      method: 'DELETE',
      body: null,
      lastEventId: undefined,
    });
    if (head.status === 405) return await failed(context, { head, body });
    body.cancel(new GatewayError('upstream_reset', 'The session is over.'));
    await this.#parts.sessions.end(session);
    return empty(204);
  }
}

/** How a message is sent, and its answer changed. */
interface Prepared {
  readonly change: ChangeMessage | undefined;
  /** Arguments as the client sent them, where they are others now. */
  readonly given: JsonObject | undefined;
}

/** Several changes as one; undefined for none. */
function inTurn(changes: readonly ChangeMessage[]): ChangeMessage | undefined {
  if (changes.length < 2) return changes[0];
  return async (given) => {
    let said = given;
    for (const one of changes) said = await one(said);
    return said;
  };
}

const asItIs: Prepared = { change: undefined, given: undefined };
const emptyArguments: JsonObject = Object.freeze({});

function empty(status: number): Answer {
  return { status, headers: [], body: null, source: 'provider' };
}

/** An error of the server as it came, bounded. */
async function failed(context: RequestContext, { head, body }: Answered): Promise<Answer> {
  if (!/^(?:application\/json|text\/event-stream)?$/.test(head.contentType)) {
    // A page that is no JSON-RPC would be shown as one of the gateway.
    body.cancel(new GatewayError('upstream_reset', 'The gateway needs only the status.'));
    return empty(head.status);
  }
  const bytes = await body.collect(context, maxErrorBytes);
  const headers = head.contentType === '' ? [] : ['content-type', head.contentType];
  return { status: head.status, headers, body: bytes, source: 'provider' };
}

/** The call in `params`. Throws for a tool that is off. */
function toolCall(server: McpServer, params: JsonObject): ToolCall {
  const tool = rpcMessages.textOf(params, 'name');
  if (tool === undefined)
    throw new GatewayError('mcp_message_invalid', 'The "params" of "tools/call" have no "name" of a tool.');
  if (!server.isOn('tool', tool)) throw refused('tool', tool, server);
  const given = params['arguments'];
  if (given !== undefined && !isJsonObject(given))
    throw new GatewayError('mcp_message_invalid', 'The "arguments" of "tools/call" are no JSON object.');
  return callOf(server, tool, given ?? emptyArguments);
}

function callOf({ slug, guardrails }: McpServer, tool: string, given: JsonObject): ToolCall {
  return { server: slug, tool, arguments: given, guardrails };
}

/** Throws for prompts and resources that are off. */
function requireOn(server: McpServer, method: string, params: JsonObject): void {
  if (!server.hasSwitches) return;
  if (method === 'prompts/get') requirePrompt(server, rpcMessages.textOf(params, 'name'));
  else if (/^resources\/(?:read|subscribe|unsubscribe)$/.test(method))
    requireResource(server, rpcMessages.textOf(params, 'uri'));
  else if (method === 'completion/complete' && isJsonObject(params['ref'])) {
    const { ref } = params;
    requirePrompt(server, rpcMessages.textOf(ref, 'name'));
    requireResource(server, rpcMessages.textOf(ref, 'uri'));
  }
}

function requirePrompt(server: McpServer, name: string | undefined): void {
  if (name !== undefined && !server.isOn('prompt', name)) throw refused('prompt', name, server);
}

function requireResource(server: McpServer, uri: string | undefined): void {
  if (uri === undefined) return;
  const isClosed =
    !server.isOn('resource', uri) ||
    !server.isOn('resource_template', uri) ||
    server.closedTemplates.some((template) => matchesTemplate(uri, template));
  if (isClosed) throw refused('resource', uri, server);
}

function refused(type: string, name: string, { slug }: McpServer): GatewayError {
  return rpcMessages.refusedCapability(
    `The ${type} ${JSON.stringify(name.slice(0, 128))} of the MCP server "${slug}"`,
    'it is switched off for this workspace, or is not on the list of what may be used',
  );
}

/**
 * How the result of a call is judged and cut; undefined when it may pass as it is. Its id does not count: a server could
 * answer another call of the client there. A result that is refused becomes an error of the call, on a stream, too.
 */
function resultChange({ server, context }: Asked, call: ToolCall): ChangeMessage | undefined {
  const judging = toolCallGates(context).filter(
    (gate) => gate.after !== undefined && gate.wantsResult?.(call) !== false,
  );
  const maxBytes = server.maxResultBytes(call.tool);
  if (judging.length === 0 && maxBytes === undefined) return undefined;
  return async (answer) => {
    if (!isJsonObject(answer['result'])) return answer;
    const held = { result: clipped(answer['result'], maxBytes) as JsonObject[string] };
    try {
      for (const gate of judging) await gate.after?.(call, held);
    } catch (error) {
      if (!GatewayError.is(error)) throw error;
      return errorMessage(context, answer['id'], error);
    }
    return held.result === answer['result'] ? answer : { ...answer, result: held.result };
  };
}

/** The error as the answer to one message. */
function errorMessage(context: RequestContext, id: JsonValue | undefined, error: GatewayError): JsonObject {
  const told = typeof id === 'string' || typeof id === 'number' ? id : null;
  return { ...rpcError(context.id, told, error) } as JsonObject;
}

/** A result whose texts are cut to `maxBytes` together; the last one says so. */
function clipped(result: JsonObject, maxBytes: number | undefined): JsonObject {
  const { content } = result;
  if (maxBytes === undefined || !Array.isArray(content)) return result;
  let left = maxBytes;
  let cutBytes = 0;
  const kept = content.flatMap((part) => {
    const text = isJsonObject(part) ? rpcMessages.textOf(part, 'text') : undefined;
    if (text === undefined) return [part];
    const bytes = Buffer.from(text);
    const room = Math.max(0, Math.min(left, bytes.length));
    left -= room;
    if (room === bytes.length) return [part];
    cutBytes += bytes.length - room;
    return room === 0
      ? []
      : [{ ...(part as JsonObject), text: wholeCharacters(bytes.subarray(0, room)).toString('utf8') }];
  });
  if (cutBytes === 0) return result;
  kept.push({
    type: 'text',
    text: `[${cutBytes} bytes of the result are left out: it is longer than ${maxBytes} bytes]`,
  });
  // It repeats the whole result, which a client would read instead.
  const rest = Object.entries(result).filter(([name]) => name !== 'structuredContent');
  return { ...Object.fromEntries(rest), content: kept };
}

/** A stream without an end of its own, which the gateway can end. */
class ListenStream extends PassedStream {
  readonly #over: () => void;

  constructor(source: StreamSource, over: () => void) {
    super(source);
    this.#over = over;
  }

  /** Ends it as if the server had. */
  finish(): void {
    this.source.cancel(
      new GatewayError('shutting_down', 'The configuration was replaced, or the gateway ends.'),
    );
    this.end();
  }

  override cancel(error: GatewayError): void {
    this.#over();
    super.cancel(error);
  }

  override end(): void {
    this.#over();
    super.end();
  }

  override fail(error: GatewayError, told?: Buffer): void {
    this.#over();
    super.fail(error, told);
  }
}

/** The parts of a handshake's result that the gateway needs. */
function greetingResult(messages: readonly JsonObject[], id: JsonObject[string] | undefined) {
  const answer = messages.find((message) => message['id'] === id && 'result' in message);
  const result = answer?.['result'];
  return isJsonObject(result)
    ? { version: rpcMessages.textOf(result, 'protocolVersion') ?? '', result }
    : undefined;
}
