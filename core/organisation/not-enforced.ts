import { Type } from 'typebox';

/**
 * What is kept and acts on no request yet, each with the sentence that says so in answers, in `weir check` and in
 * refusals. An entry is removed when its feature acts.
 */
export const notEnforced = {
  guardrails:
    'Guardrails are stored and not enforced yet: they judge no request. Put guard plugins into the pipeline to check requests.',
} as const;

/** The warning in answers about what does not act. */
export const Warning = Type.String({ description: 'What was kept and does not act yet.' });

const Status = Type.Literal('not enforced', { description: 'It is kept and does not act yet.' });

/** Members by which an answer shows that something does not act. */
export const notEnforcedFields = { status: Status, warning: Warning };

/** The values of these members for a guardrail. */
export const guardrailNotEnforced = { status: 'not enforced', warning: notEnforced.guardrails } as const;
