import type { GuardrailData } from './record-kinds.ts';

/** Feedback that a guardrail records for its verdict. */
interface GuardrailFeedback {
  readonly value: number;
  readonly weight: number;
  readonly metadata: string;
}

/** A compiled guardrail: its checks exist and their parameters are valid. Immutable; all requests share the object. */
export interface GuardrailSpec {
  /** Slug of a stored guardrail; else its name in its config, or its place there. */
  readonly id: string;
  /** Undefined for an inline guardrail of a config or header. */
  readonly version: string | undefined;
  /** A mutator changes the request or answer that it checks. */
  readonly type: 'guardrail' | 'mutator';
  readonly checks: GuardrailData['checks'];
  /** Sealed parameters of its record (`checkSecret`); undefined for an inline guardrail. */
  readonly sealed:
    { readonly recordId: string; readonly secrets: Readonly<Record<string, string>> } | undefined;
  /** True: a failed verdict refuses (446). False: it lets through and marks (246). */
  readonly deny: boolean;
  /** The request does not wait for the verdict, and the guardrail denies nothing. */
  readonly isAsync: boolean;
  /** Checks run one after the other; each sees the changes of the one before. */
  readonly isSequential: boolean;
  /** Mode for streamed answers; undefined: `hold` for a guardrail that refuses or changes answers, else `observe`. */
  readonly stream: 'hold' | 'window' | 'observe' | undefined;
  readonly onSuccess: GuardrailFeedback | undefined;
  readonly onFail: GuardrailFeedback | undefined;
}

/** `input` checks a request before it goes to a provider, `output` the answer before it goes to the client. */
export type CheckPhase = 'input' | 'output';

/** Guardrails of a request and of its answer, in order. */
export interface GuardrailSpecs {
  readonly input: readonly GuardrailSpec[];
  readonly output: readonly GuardrailSpec[];
}

/** Compiles the members of `actions`, which are the same for stored and inline guardrails. */
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

function feedbackIn(written: unknown): GuardrailFeedback | undefined {
  const { feedback } = Object(written) as { readonly feedback?: unknown };
  if (typeof feedback !== 'object' || feedback === null) return undefined;
  const { value, weight = 1, metadata = '' } = feedback as Readonly<Record<string, unknown>>;
  if (typeof value !== 'number' || typeof weight !== 'number' || typeof metadata !== 'string')
    return undefined;
  return { value, weight, metadata };
}
