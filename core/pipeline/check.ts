import type { Static, TSchema } from 'typebox';
import type { EndpointId } from '../dialects/endpoint.ts';
import type { Guards } from '../organisation/guardrails.ts';
import type { JsonPath, JsonValue, MaybePromise } from './context.ts';
import type { OptionFault, Scope } from './plugin.ts';

/** What a guardrail looks at: a request before it goes to a provider, or the answer before it leaves. */
export type CheckPhase = 'input' | 'output';

/** One text of what is judged, wherever its wire keeps it. */
export interface SubjectText {
  /** `user`, `system`, `assistant`, `tool` … of a request; `assistant` of an answer. */
  readonly role: string;
  /** A refusal of the model is a `text`; arguments of a tool call are JSON. */
  readonly type: 'text' | 'reasoning' | 'tool-arguments';
  readonly text: string;
  /** Place of the string in the JSON. */
  readonly path: JsonPath;
  /** Index of the choice of an answer; 0 in a request. */
  readonly choice: number;
}

/** What one check judges: a request as this attempt sends it, or a complete answer. */
export interface CheckSubject {
  readonly phase: CheckPhase;
  readonly endpoint: EndpointId;
  /** As addressed: a name, or a slug with its `@`. */
  readonly provider: string;
  /** The model that the request names; empty for none. */
  readonly model: string;
  /** All texts, oldest first. A check that looks for something looks at all of them. */
  readonly texts: readonly SubjectText[];
  /**
   * The text that counts and endings are about: the last message of a request (its parts joined by line feeds), the
   * first choice of an answer. Empty for none.
   */
  readonly text: string;
  /** The body as JSON; undefined when it is none. Read-only. */
  readonly json: JsonValue | undefined;
  /** Of the request. */
  readonly metadata: Readonly<Record<string, string>>;
  /** A header of the client by lower-case name. */
  header(name: string): string | undefined;
  /** Aborts when the check is out of time, or the client has left. Hand it to whatever the check waits for. */
  readonly signal: AbortSignal;
  /** Puts other texts in their place: `change` is called with each. For checks that declare `changes`. */
  setTexts(change: (text: SubjectText) => string): void;
  /** Replaces or adds a value of the JSON. For checks that declare `changes`. */
  set(path: JsonPath, value: JsonValue): void;
}

/** What a check came to. */
export interface CheckResult {
  /** `skipped`: there was nothing that it could judge; `data` says why. */
  readonly verdict: 'passed' | 'failed' | 'skipped';
  /** For the client and the log: what was found and why, never more of the text than needed. */
  readonly data?: JsonValue;
}

/** Judges one subject. Throwing means that it could not judge: `on_error` of the check decides then. */
export type Judge = (subject: CheckSubject) => MaybePromise<CheckResult>;

/** A check: one question that guardrails can ask of a request or an answer. */
export interface CheckDefinition<S extends TSchema = TSchema> {
  /** How guardrails name it: `default.contains`, `acme.tone`. */
  readonly id: string;
  /** Other ids for the same. */
  readonly aliases?: readonly string[];
  /** One sentence for the generated reference. */
  readonly description: string;
  /** Schema of the parameters; unknown ones are refused with a suggestion. */
  readonly schema: S;
  /** Where it can be asked. */
  readonly phases: readonly CheckPhase[];
  /** It may change what it judges. */
  readonly changes?: true;
  /** Default bound of one judgement in milliseconds. Default 5000. */
  readonly timeoutMs?: number;
  /** What a schema cannot say of parameters. Start nothing here. Returns everything that is wrong. */
  check?(parameters: Static<S>): readonly OptionFault[];
  /**
   * Present where a streamed answer can be judged as it comes: how many UTF-16 units of text one finding spans at most.
   * The stream holds back as many.
   */
  reach?(parameters: Static<S>): number;
  /** Once for each place that names the check. */
  create(parameters: Static<S>, scope: Scope): Judge;
}

/** A definition whose parameters' type has been forgotten. */
export type AnyCheck = CheckDefinition<TSchema>;

/**
 * Declares a check.
 * @example
 * export const shortAnswers = defineCheck({
 *   id: 'acme.short',
 *   description: 'Fails for long answers.',
 *   phases: ['output'],
 *   schema: Type.Object({ most: Type.Integer({ minimum: 1 }) }, { additionalProperties: false }),
 *   create: ({ most }) => ({ text }) => (text.length <= most ? passed() : failed({ length: text.length, most })),
 * });
 */
export function defineCheck<S extends TSchema>(check: CheckDefinition<S>): CheckDefinition<S> {
  return check;
}

/** The check found nothing wrong. */
export function passed(data?: JsonValue): CheckResult {
  return data === undefined ? { verdict: 'passed' } : { verdict: 'passed', data };
}

/** The check found what it looks for. */
export function failed(data?: JsonValue): CheckResult {
  return data === undefined ? { verdict: 'failed' } : { verdict: 'failed', data };
}

/** The check had nothing that it could judge. */
export function skipped(reason: string): CheckResult {
  return { verdict: 'skipped', data: { explanation: reason } };
}

/** `passed` when `holds` is what the check wants; with `not: true` it wants the opposite. */
export function verdictOf(holds: boolean, not: boolean | undefined, data?: JsonValue): CheckResult {
  return holds !== (not === true) ? passed(data) : failed(data);
}

/** The checks that guardrails of this gateway can be made of. */
export interface Checks extends Guards {
  /** By id or alias; undefined when there is none. */
  definition(id: string): AnyCheck | undefined;
}
