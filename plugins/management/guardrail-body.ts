import {
  Actions,
  actionsOf,
  Check,
  checkIssues,
  checksOf,
  guardrailFields as fields,
} from '../../core/organisation/guardrail-schema.ts';
import { Type, type Scope, type Static } from '../../core/pipeline/plugin.ts';
import type { GuardrailData } from '../../core/ports/record-kinds.ts';
import { plainObject } from './plain-json.ts';
import { refusedBody } from './refused-body.ts';
import { Name, strict } from './text-schema.ts';

export { Actions, actionsOf as readActions, Check };

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
  const mistakes = checkIssues(given, guards, '/checks');
  if (mistakes.length > 0) throw refusedBody(mistakes);
  return checksOf(given, (parameters, index) => plainObject(parameters, `/checks/${index}/parameters`));
}
