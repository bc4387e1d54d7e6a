import { Type, type Scope, type Static } from '../../core/pipeline/plugin.ts';
import type { GuardrailData } from '../../core/ports/record-kinds.ts';
import { nearest } from './nearest.ts';
import { plainObject } from './plain-json.ts';
import { refusedBody, type BodyMistake } from './refused-body.ts';
import { Name, strict } from './text-schema.ts';

/** One check of a guardrail. */
export const Check = Type.Object(
  {
    id: Type.String({
      minLength: 1,
      maxLength: 255,
      examples: ['default.requestParametersCheck'],
      description: 'What is checked: the name of a guard plugin, or what existing guardrails call it.',
    }),
    name: Type.Optional(Name('For people. Default: the id.')),
    is_enabled: Type.Optional(Type.Boolean({ default: true })),
    parameters: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        examples: [{ params: { blockedKeys: ['logit_bias'] } }],
        description: 'The options of the guard plugin.',
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

/** What happens when the checks have spoken. */
export const Actions = Type.Object(
  {
    deny: Type.Optional(Type.Boolean({ default: false, description: 'Refuse what does not pass.' })),
    async: Type.Optional(Type.Boolean({ default: false, description: 'Let the request pass meanwhile.' })),
    sequential: Type.Optional(Type.Boolean({ default: false, description: 'One check after the other.' })),
    on_success: Type.Optional(Feedback(5)),
    on_fail: Type.Optional(Feedback(-5)),
  },
  strict,
);

const fields = {
  name: Name('For people.'),
  checks: Type.Array(Check, { minItems: 1, maxItems: 50 }),
  actions: Actions,
};

/** What makes a guardrail. */
export const CreateGuardrail = Type.Object(
  {
    ...fields,
    workspace_id: Type.Optional(Name('Id or slug. Default: the workspace of the key.')),
    organisation_id: Type.Optional(
      Name('Without `workspace_id`, for keys of organisations: a guardrail of the whole organisation.'),
    ),
  },
  strict,
);

/** What changes one; what is not given stays, and checks are replaced as a whole. */
export const UpdateGuardrail = Type.Object(
  {
    name: Type.Optional(fields.name),
    checks: Type.Optional(fields.checks),
    actions: Type.Optional(fields.actions),
    workspace_id: Type.Optional(Name('Of the guardrail, where its slug does not tell.')),
  },
  strict,
);

/** The checks as they are stored. Throws `invalid_request` with every mistake: there is no such check, or not so. */
export function readChecks(
  given: readonly Static<typeof Check>[],
  guards: Scope['guards'],
): GuardrailData['checks'] {
  const mistakes = given.flatMap(({ id, parameters = {} }, index): BodyMistake[] => {
    const issues = guards.issues(id, parameters);
    if (issues === undefined) return [{ path: `/checks/${index}/id`, message: unknown(id, guards.ids) }];
    return issues.map(({ path, message }) => ({ path: `/checks/${index}/parameters${path}`, message }));
  });
  if (mistakes.length > 0) throw refusedBody(mistakes);
  return given.map(({ id, name = id, is_enabled: isEnabled = true, parameters = {} }, index) => ({
    ...{ id, name, isEnabled },
    parameters: plainObject(parameters, `/checks/${index}/parameters`),
  }));
}

/** The actions as they are stored, with what was left out. */
export function readActions(given: Static<typeof Actions>): GuardrailData['actions'] {
  const { deny = false, async = false, sequential = false } = given;
  return {
    ...{ deny, async, sequential },
    on_success: feedbackOf(given.on_success, 5),
    on_fail: feedbackOf(given.on_fail, -5),
  };
}

function feedbackOf(given: Static<typeof Actions>['on_fail'], usual: number) {
  const { value = usual, weight = 1, metadata = '' } = given?.feedback ?? {};
  return { feedback: { value, weight, metadata } };
}

function unknown(id: string, known: readonly string[]): string {
  const shown = JSON.stringify(id.slice(0, 64));
  const near = nearest(id.slice(0, 64), known);
  const hint = near === undefined ? '.' : `; did you mean "${near}"?`;
  return `is ${shown}, and no guard plugin of this gateway does that${hint} Known: ${known.join(', ')}`;
}
