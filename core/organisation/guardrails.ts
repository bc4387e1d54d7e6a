import { type Static, Type } from 'typebox';
import { didYouMean } from '../base/did-you-mean.ts';
import { type JsonObject, type Mistake, parseJson } from '../base/json.ts';
import type { GuardrailData } from '../ports/record-kinds.ts';
import { Name, strict } from './fields.ts';

/** One check of a guardrail. */
export const Check = Type.Object(
  {
    id: Type.String({
      minLength: 1,
      maxLength: 255,
      examples: ['default.requestParametersCheck'],
      description: 'Id of the check: `default.contains`, or a check of a plugin.',
    }),
    name: Type.Optional(Name('For people. Default: the id.')),
    is_enabled: Type.Optional(Type.Boolean({ default: true })),
    parameters: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        examples: [{ params: { blockedKeys: ['logit_bias'] } }],
        description: 'Parameters of the check.',
      }),
    ),
    on_error: Type.Optional(
      Type.Union([Type.Literal('pass'), Type.Literal('fail')], {
        description:
          'Verdict of a check that could not judge because it failed or timed out. Default: `fail` if the guardrail denies, else `pass`. The log says `errored` in both cases.',
      }),
    ),
    timeout_ms: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 120_000,
        description: 'Longest time of one judgement, in milliseconds. Default: that of the check.',
      }),
    ),
  },
  strict,
);

const Feedback = (value: number) =>
  Type.Object(
    {
      feedback: Type.Object(
        {
          value: Type.Optional(Type.Number({ minimum: -10, maximum: 10, default: value })),
          weight: Type.Optional(Type.Number({ minimum: 0, maximum: 1, default: 1 })),
          metadata: Type.Optional(Type.String({ maxLength: 4096, default: '' })),
        },
        strict,
      ),
    },
    strict,
  );

/** Actions after the verdicts of the checks. */
export const Actions = Type.Object(
  {
    deny: Type.Optional(
      Type.Boolean({ default: false, description: 'Refuse requests and answers that do not pass.' }),
    ),
    async: Type.Optional(
      Type.Boolean({ default: false, description: 'Let the request continue while the checks run.' }),
    ),
    sequential: Type.Optional(
      Type.Boolean({ default: false, description: 'Run the checks one after the other.' }),
    ),
    stream: Type.Optional(
      Type.Union([Type.Literal('hold'), Type.Literal('window'), Type.Literal('observe')], {
        description:
          'How a streamed answer is judged. `hold`: the client gets it after all of it is judged. `window`: the client gets the judged part, which lags behind by the length of the longest possible finding; only for checks whose findings have a maximum length. `observe`: the client gets it at once; it is judged at its end and cannot be denied. Default: `hold` if the guardrail denies or changes, else `observe`.',
      }),
    ),
    on_success: Type.Optional(Feedback(5)),
    on_fail: Type.Optional(Feedback(-5)),
  },
  strict,
);

/** List of guardrails in configs and settings: slugs, and guardrails with their checks. */
export const GuardrailList = (description: string) =>
  Type.Optional(
    Type.Array(
      Type.Union([
        Type.String({ minLength: 1, maxLength: 255 }),
        // Its checks are validated apart.
        Type.Unsafe<JsonObject>(
          Type.Object(
            {},
            {
              additionalProperties: true,
              description: 'A guardrail with its checks: { "default.contains": { … }, "deny": true }.',
            },
          ),
        ),
      ]),
      {
        maxItems: 100,
        description: `${description}: slugs of stored guardrails, or inline guardrails. Needs the plugin \`guardrails\` in the pipeline.`,
      },
    ),
  );

/** Names of guardrails that apply without being named by a request. */
export const DefaultGuardrailNames = (description: string) =>
  Type.Optional(
    Type.Array(Name('Slug or id of a guardrail.'), { maxItems: 20, uniqueItems: true, description }),
  );

/** Fields of a guardrail in bodies and files. */
export const guardrailFields = {
  name: Name('For people.'),
  checks: Type.Array(Check, { minItems: 1, maxItems: 50 }),
  actions: Actions,
};

/** Parameters of one check in records. */
export type GuardrailParameters = GuardrailData['checks'][number]['parameters'];

/** Checks of the member `checks` that do not exist, or whose parameters do not fit. */
export function checkIssues(given: readonly Static<typeof Check>[], guards: Guards): readonly Mistake[] {
  return given.flatMap((check, index): readonly Mistake[] => {
    const { id, parameters = {} } = check;
    const issues = guards.issues(id, parameters);
    if (issues === undefined) return [{ path: `/checks/${index}/id`, message: unknownCheck(id, guards.ids) }];
    return issues.map(({ path, message }) => ({ path: `/checks/${index}/parameters${path}`, message }));
  });
}

/** The checks in stored form; `plain` converts parameters to those of records. */
export function checksOf(
  given: readonly Static<typeof Check>[],
  plain: (parameters: Readonly<Record<string, unknown>>, index: number) => GuardrailParameters,
): GuardrailData['checks'] {
  return given.map((check, index) => {
    const { id, name = id, is_enabled: isEnabled = true, parameters = {} } = check;
    return {
      id,
      name,
      isEnabled,
      parameters: plain(parameters, index),
      ...(check.on_error !== undefined && { onError: check.on_error }),
      ...(check.timeout_ms !== undefined && { timeoutMs: check.timeout_ms }),
    };
  });
}

/** Parameters of checks that are secrets: credentials for services, headers for webhooks. */
const secretParameters = ['credentials', 'headers'] as const;

/** The checks without their secret parameters, and these as JSON by the fields of the record's secrets. */
export function withoutSecrets(checks: GuardrailData['checks']): {
  readonly checks: GuardrailData['checks'];
  readonly plain: Readonly<Record<string, string>>;
} {
  const plain: Record<string, string> = {};
  const bare = checks.map((check, index) => {
    const parameters: Record<string, unknown> = { ...check.parameters };
    for (const name of secretParameters) {
      if (parameters[name] === undefined) continue;
      plain[checkSecret(index, name)] = JSON.stringify(parameters[name]);
      delete parameters[name];
    }
    return { ...check, parameters: parameters as GuardrailParameters };
  });
  return { checks: bare, plain };
}

/** The inverse for the check at `index`: `opened` returns the plain secret of a field; undefined for none. */
export function withSecrets(
  parameters: GuardrailParameters,
  index: number,
  opened: (field: string) => string | undefined,
): GuardrailParameters {
  const whole: Record<string, unknown> = { ...parameters };
  for (const name of secretParameters) {
    const text = opened(checkSecret(index, name));
    if (text !== undefined) whole[name] = parseJson(text);
  }
  return whole as GuardrailParameters;
}

/** The actions in stored form, with defaults. */
export function actionsOf(given: Static<typeof Actions>): GuardrailData['actions'] {
  const { deny = false, async = false, sequential = false } = given;
  return {
    deny,
    async,
    sequential,
    ...(given.stream !== undefined && { stream: given.stream }),
    on_success: feedbackOf(given.on_success, 5),
    on_fail: feedbackOf(given.on_fail, -5),
  };
}

function feedbackOf(given: Static<typeof Actions>['on_fail'], usual: number) {
  const { value = usual, weight = 1, metadata = '' } = given?.feedback ?? {};
  return { feedback: { value, weight, metadata } };
}

function unknownCheck(id: string, known: readonly string[]): string {
  const shown = JSON.stringify(id.slice(0, 64));
  const near = didYouMean(id.slice(0, 64), known);
  const hint =
    near === undefined
      ? `; list the plugin that offers it, or use one of ${known.join(', ')}`
      : `; did you mean "${near}"?`;
  return `is ${shown}, and this gateway has no such check${hint}`;
}

/** Available checks of guardrails. */
export interface Guards {
  /** Every id, sorted: `acme.tone`, `default.addPrefix`, and other names for the same (`add-prefix`). */
  readonly ids: readonly string[];
  /**
   * Violations in the parameters of a check; undefined for an unknown check. Throws `Unanswered` the first time that
   * code in another thread has to look at them.
   */
  issues(id: string, parameters: unknown): readonly Mistake[] | undefined;
}

/** Thrown for parameters that code in another thread has to look at first: repeat the work after `answer`. */
export class Unanswered extends Error {
  /** Resolves when it has looked at them, or could not; never rejects. */
  readonly answer: Promise<void>;

  constructor(answer: Promise<void>) {
    super('The parameters of a check are being looked at in another thread.');
    this.answer = answer;
  }
}

/** More parameters than any request or configuration holds. */
export const mostAnswers = 10_000;

/**
 * Runs `work`, and again after each time that it has thrown `Unanswered` by itself (not in a promise): it must have
 * changed nothing before. A promise only then, or when `work` returns one.
 */
export function whenAnswered<T>(work: () => T | Promise<T>, left = mostAnswers): T | Promise<T> {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof Unanswered) || left === 0) throw error;
    return error.answer.then(() => whenAnswered(work, left - 1));
  }
}

/** Name, in a record's `secrets`, of a parameter of a check (JSON). */
function checkSecret(index: number, parameter: string): string {
  return `checks.${index}.${parameter}`;
}
