import type { GuardrailData } from './record-kinds.ts';

/** Feedback that a guardrail gives by itself. */
interface GuardrailFeedback {
  readonly value: number;
  readonly weight: number;
  readonly metadata: string;
}

/** A guardrail as it acts: its checks are known, and their parameters fit. Immutable, and the same object for all requests. */
export interface GuardrailSpec {
  /** Slug of a stored one; else what its config calls it, or its place there. */
  readonly id: string;
  /** Undefined for one that is written out in a config or header. */
  readonly version: string | undefined;
  /** A mutator changes what it judges. */
  readonly type: 'guardrail' | 'mutator';
  readonly checks: GuardrailData['checks'];
  /** What its record holds of credentials (`checkCredentials`); undefined for one that is written out. */
  readonly sealed:
    { readonly recordId: string; readonly secrets: Readonly<Record<string, string>> } | undefined;
  /** Refuse what does not pass (446); else let it through marked (246). */
  readonly deny: boolean;
  /** The request does not wait for it, and it denies nothing. */
  readonly isAsync: boolean;
  /** One check after the other, each seeing what the one before has changed. */
  readonly isSequential: boolean;
  /** How a streamed answer is judged; undefined: by what the guardrail does. */
  readonly stream: 'hold' | 'window' | 'observe' | undefined;
  readonly onSuccess: GuardrailFeedback | undefined;
  readonly onFail: GuardrailFeedback | undefined;
}

/** What a guardrail looks at: a request before it goes to a provider, or the answer before it leaves. */
export type CheckPhase = 'input' | 'output';

/** What judges a request and its answer, in order. */
export interface GuardrailSpecs {
  readonly input: readonly GuardrailSpec[];
  readonly output: readonly GuardrailSpec[];
}

/** What a guardrail does, whatever wrote it down: the members of `actions`. */
export function guardrailSpec(
  own: Pick<GuardrailSpec, 'id' | 'version' | 'type' | 'checks' | 'sealed'>,
  actions: Readonly<Record<string, unknown>>,
): GuardrailSpec {
  const stream = actions['stream'];
  return {
    ...own,
    deny: actions['deny'] === true,
    isAsync: actions['async'] === true,
    isSequential: actions['sequential'] === true || own.type === 'mutator',
    stream: stream === 'hold' || stream === 'window' || stream === 'observe' ? stream : undefined,
    onSuccess: feedbackIn(actions['on_success']),
    onFail: feedbackIn(actions['on_fail']),
  };
}

/** The field of a record in whose `secrets` the credentials of a check stand, as JSON. */
export function checkCredentials(index: number): string {
  return `checks.${index}.credentials`;
}

function feedbackIn(written: unknown): GuardrailFeedback | undefined {
  const { feedback } = Object(written) as { readonly feedback?: unknown };
  if (typeof feedback !== 'object' || feedback === null) return undefined;
  const { value, weight = 1, metadata = '' } = feedback as Readonly<Record<string, unknown>>;
  if (typeof value !== 'number' || typeof weight !== 'number' || typeof metadata !== 'string')
    return undefined;
  return { value, weight, metadata };
}
