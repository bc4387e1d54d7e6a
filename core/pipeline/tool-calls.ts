import {
  defineKey,
  type JsonObject,
  type JsonValue,
  type MaybePromise,
  type RequestContext,
} from './context.ts';

/** One call of an MCP tool, before it is sent. */
export interface ToolCall {
  /** Slug of the server that has the tool. */
  readonly server: string;
  /** Name of the tool at that server, without prefixes. */
  readonly tool: string;
  /** A gate may replace them. */
  arguments: JsonObject;
  /** Guardrails that the configuration gives the server: the same object for all of its calls. */
  readonly guardrails?: ToolGuardrails | undefined;
}

/** Guardrails as written in the configuration: slugs of those of the organisation, or inline ones. */
export interface ToolGuardrails {
  readonly input_guardrails?: readonly (string | JsonObject)[];
  readonly output_guardrails?: readonly (string | JsonObject)[];
}

/** Result of a call: the `result` of its answer. A gate may replace it. */
export interface ToolResult {
  result: JsonValue;
}

/**
 * Judges or counts the tool calls of one request: a request for a virtual server can hold a call that its path does not
 * name. Throwing a `GatewayError` refuses the call.
 */
export interface ToolCallGate {
  /** Before the call is sent. */
  before?(call: ToolCall): MaybePromise<void>;
  /** Whether `after` has to see the result of this call, asked behind `before`. Default: of every call. */
  wantsResult?(call: ToolCall): boolean;
  /** The whole result, before the client gets it: where it is wanted, the gateway holds a streamed result. */
  after?(call: ToolCall, result: ToolResult): MaybePromise<void>;
}

const gates = defineKey<readonly ToolCallGate[]>('tool-call-gates');

/** Adds a gate for the tool calls of this request. For `request` hooks of plugins in front of `mcp`. */
export function addToolCallGate(context: Pick<RequestContext, 'get' | 'set'>, gate: ToolCallGate): void {
  context.set(gates, [...(context.get(gates) ?? []), gate]);
}

const none: readonly ToolCallGate[] = [];

/** The gates of this request, in the order of the plugins. */
export function toolCallGates(context: Pick<RequestContext, 'get'>): readonly ToolCallGate[] {
  return context.get(gates) ?? none;
}
