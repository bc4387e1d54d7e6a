import type { ConversationText } from '../../dialects/dialect.ts';
import type { StreamEvent } from '../../dialects/stream-event.ts';
import type { ErrorCode } from '../../errors/codes.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import type {
  AttemptView,
  JsonPath,
  JsonValue,
  NamedModels,
  Outcome,
  RequestContext,
  ResponseView,
} from '../../pipeline/context.ts';
import type { RequestFacts } from '../../pipeline/facts.ts';
import type {
  AnyCheck,
  Capabilities,
  CheckResult,
  CheckSubject,
  OptionFault,
} from '../../pipeline/plugin.ts';
import type { HeaderList } from '../../ports/header-list.ts';
import type { LogLevel } from '../../ports/log.ts';
import type { MetricDefinition } from '../../ports/metrics.ts';

/** The part of the facts that an isolated plugin sees. */
type SentFacts = Pick<
  RequestFacts,
  | 'organisationId'
  | 'workspaceId'
  | 'apiKeyId'
  | 'userId'
  | 'aiService'
  | 'provider'
  | 'modelRequested'
  | 'modelAnswered'
  | 'stream'
  | 'config'
  | 'cacheStatus'
  | 'attempts'
  | 'usage'
  | 'finishReason'
  | 'metadata'
  | 'traceId'
  | 'spanId'
  | 'parentSpanId'
>;

/** A body as plain data. */
interface SentBody {
  readonly present: boolean;
  /** Undefined when it is not in memory, or the plugin does not declare to read it. */
  readonly bytes: Uint8Array | undefined;
}

/** An attempt as plain data. */
interface SentAttempt extends Pick<
  AttemptView,
  | 'number'
  | 'provider'
  | 'aiService'
  | 'model'
  | 'deployment'
  | 'target'
  | 'terms'
  | 'isStrict'
  | 'clientHeaders'
> {
  readonly body: SentBody;
}

/** A complete answer as plain data. */
interface SentResponse extends Pick<ResponseView, 'headers' | 'source' | 'streamed' | 'texts'> {
  readonly status: number;
  readonly bytes: Uint8Array;
}

/** The end of a request as plain data. */
type SentOutcome = Pick<
  Outcome,
  'kind' | 'status' | 'latencyMs' | 'responseTruncated' | 'responseContentType' | 'responseContentEncoding'
> & { readonly error: ToldError | undefined; readonly responseBody: Uint8Array | undefined };

/** A request as a hook in another thread sees it. */
export interface SentContext extends Pick<
  RequestContext,
  | 'id'
  | 'startedAt'
  | 'method'
  | 'path'
  | 'originalPath'
  | 'query'
  | 'headers'
  | 'remoteAddress'
  | 'endpoint'
  | 'generation'
> {
  readonly service: Readonly<Record<string, string>>;
  readonly facts: SentFacts;
  readonly body: SentBody;
  /** Undefined where the plugin does not declare to read them. */
  readonly texts: readonly ConversationText[] | undefined;
  readonly models: NamedModels | undefined;
  readonly attempt?: SentAttempt;
  readonly response?: SentResponse;
  readonly outcome?: SentOutcome;
}

/** A change that a hook has made, in the order of making. */
export type Operation =
  | { readonly on: 'body' | 'attempt' | 'response'; readonly set: JsonPath; readonly value: JsonValue }
  | { readonly on: 'body' | 'attempt' | 'response'; readonly remove: JsonPath }
  /** Texts of the answer by their index. */
  | { readonly texts: ReadonlyMap<number, string> }
  | { readonly status: number }
  | { readonly header: string; readonly value: string | undefined }
  | { readonly add: string; readonly value: string }
  /** A header of the request. */
  | { readonly requestHeader: string; readonly value: string | undefined }
  | { readonly replace: string; readonly value: string | undefined }
  | { readonly judged: 'passed' | 'changed' | 'skipped' | undefined };

/** An answer as plain data. */
interface SentAnswer {
  readonly status: number;
  readonly headers: HeaderList;
  readonly body: Uint8Array | null;
}

/** How a call of a hook ended. */
export interface HookReturn {
  readonly operations: readonly Operation[];
  readonly answer?: SentAnswer;
  /** Of a tap: events by the number under which they came, or new ones. */
  readonly emitted?: readonly (number | StreamEvent)[];
}

/** A plugin's definition as its thread describes it to the gateway. */
export type Description =
  | { readonly faults: readonly string[] }
  | {
      readonly name: string;
      readonly description: string | undefined;
      /** JSON of the schema. */
      readonly schema: string | undefined;
      readonly capabilities: Capabilities;
      readonly hasCheck: boolean;
      readonly offers: readonly DescribedCheck[];
    };

/** A check that the plugin offers to guardrails. */
export interface DescribedCheck extends Pick<
  AnyCheck,
  'id' | 'aliases' | 'description' | 'phases' | 'changes' | 'timeoutMs'
> {
  /** JSON of the schema. */
  readonly schema: string;
  readonly hasCheck: boolean;
  readonly hasReach: boolean;
}

/** Parameters as the functions of their check see them. */
export interface SeenParameters {
  readonly faults: readonly OptionFault[];
  /** Undefined for no greatest length. */
  readonly reach: number | undefined;
}

/** Texts and JSON of a request or an answer. */
export interface SentTexts extends Pick<CheckSubject, 'texts' | 'text'> {
  /** Undefined for no JSON. */
  readonly json: string | undefined;
}

/** The subject of a check as plain data. */
export interface SentSubject
  extends
    SentTexts,
    Pick<
      CheckSubject,
      | 'id'
      | 'phase'
      | 'endpoint'
      | 'provider'
      | 'service'
      | 'model'
      | 'metadata'
      | 'caller'
      | 'traceId'
      | 'spanId'
    > {
  readonly headers: HeaderList;
  /** Number under which the thread keeps the request of an answer; undefined when it keeps none. */
  readonly request: number | undefined;
}

/** A change that a check has made, in the order of making. Values are JSON. */
export type CheckOperation =
  /** Texts by their index. */
  | { readonly texts: ReadonlyMap<number, string> }
  | { readonly set: JsonPath; readonly value: string }
  | { readonly replace: readonly { readonly path: JsonPath; readonly value: string }[] }
  | { readonly hold: number };

/** How a judgement ended; `wants`: the thread needs the parameters and the request (again). */
export type CheckReturn =
  | { readonly wants: true }
  | {
      readonly operations: readonly CheckOperation[];
      readonly verdict: CheckResult['verdict'];
      /** JSON. */
      readonly data: string | undefined;
    }
  | { readonly operations: readonly CheckOperation[]; readonly error: ToldError };

/** The hooks that can run in another thread. */
export const isolatedHooks = ['admit', 'request', 'attempt', 'response', 'stream', 'settled'] as const;
export type IsolatedHook = (typeof isolatedHooks)[number];

/** Services that a plugin in a thread calls in the gateway. */
export type Service =
  'fetch' | 'counters.take' | 'counters.adjust' | 'cache.get' | 'cache.set' | 'cache.delete';

/** Request of one call to the thread. */
export type ThreadRequest =
  | { readonly ask: 'describe' }
  | { readonly ask: 'check'; readonly options: unknown }
  | { readonly ask: 'create'; readonly options: unknown; readonly settings: ThreadSettings }
  | { readonly ask: 'dispose' }
  | { readonly ask: 'hook'; readonly hook: Exclude<IsolatedHook, 'stream'>; readonly context: SentContext }
  | { readonly ask: 'tap'; readonly tap: number; readonly context: SentContext }
  | {
      readonly ask: 'events';
      readonly tap: number;
      readonly first: number;
      readonly events: readonly StreamEvent[];
    }
  | { readonly ask: 'end'; readonly tap: number }
  /** The check is the index among those that are offered. */
  | { readonly ask: 'parameters'; readonly check: number; readonly parameters: unknown }
  | {
      readonly ask: 'judge';
      readonly check: number;
      /** Number of the place that names the check, with its parameters when the thread has not got them. */
      readonly judge: number;
      readonly parameters: unknown;
      readonly subject: SentSubject;
      /** Of an answer, when the thread has not got it. */
      readonly request: SentTexts | undefined;
    };

/** Plain values of the scope. */
export interface ThreadSettings {
  readonly headerPrefix: string;
  readonly keyPrefix: string;
  readonly basePath: string;
  readonly publicUrl: string | undefined;
}

/** To the thread. */
export type ToThread =
  | { readonly id: number; readonly call: ThreadRequest }
  | { readonly answered: number; readonly value: unknown }
  | { readonly refused: number; readonly error: ToldError }
  | { readonly drop: number }
  /** The call is out of time, or the client has left. */
  | { readonly abort: number }
  | { readonly ping: true }
  | { readonly retiring: true };

/** From the thread. */
export type FromThread =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly error: ToldError }
  | { readonly asks: number; readonly service: Service; readonly args: readonly unknown[] }
  | { readonly log: LogLevel; readonly message: string; readonly fields: string }
  | {
      readonly metric: 'counter' | 'gauge' | 'histogram';
      readonly definition: MetricDefinition<string>;
      readonly labels: Readonly<Record<string, string>>;
      readonly value: number;
    }
  | { readonly fault: string; readonly error: ToldError }
  | { readonly memoryBytes: number };

/** Start data of a thread. */
export interface ThreadData {
  /** URL of the plugin's bundle. */
  readonly module: string;
  /** Counts the turns of the thread. */
  readonly turns: Int32Array;
}

/** A thrown value, on its way to another thread. */
interface ToldError {
  /** Of an error that is no refusal. */
  readonly name?: string;
  readonly message: string;
  readonly stack: string | undefined;
  /** Of a refusal. */
  readonly code?: ErrorCode;
  readonly param?: string | null;
  readonly headers?: readonly string[];
  readonly plugin?: string | undefined;
}

/** Turns a thrown value into a message for another thread. */
export function toldError(thrown: unknown): ToldError {
  if (GatewayError.is(thrown)) {
    const { message, stack, code, param, headers, plugin } = thrown;
    return { message, stack, code, param, headers: [...headers], plugin };
  }
  if (thrown instanceof Error) return { name: thrown.name, message: thrown.message, stack: thrown.stack };
  return { message: String(thrown), stack: undefined };
}

/** The same error here. */
export function heardError({ name, message, stack, code, param, headers, plugin }: ToldError): Error {
  if (code !== undefined)
    return new GatewayError(code, message, {
      param: param ?? null,
      headers: headers ?? [],
      ...(plugin !== undefined && { plugin }),
    });
  const error = new Error(message);
  if (name !== undefined) error.name = name;
  if (stack !== undefined) error.stack = stack;
  return error;
}
