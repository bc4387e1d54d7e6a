import { Type, type Static } from '../../core/pipeline/plugin.ts';

/** Options of `add-prefix`, spelled as in existing guardrail configurations. */
export const AddPrefixSchema = Type.Object(
  {
    prefix: Type.String({
      minLength: 1,
      maxLength: 100_000,
      description:
        'Text that is put in front. Spaces and line breaks between it and the text are part of it.',
    }),
    applyToRole: Type.Optional(
      Type.Union([Type.Literal('user'), Type.Literal('system'), Type.Literal('assistant')], {
        default: 'user',
        description:
          'Whose text: that of the last message of this role. `system` includes `developer` messages, `system` of Messages and `instructions` of Responses; a system text that is missing is added at the front. User messages that only carry tool results do not count. Prompts of Completions are user text.',
      }),
    ),
    addToExisting: Type.Optional(
      Type.Boolean({
        default: true,
        description:
          'Put the prefix into the message. When false, a message of its own with the prefix is added before it, or at the end when there is none. Plain texts (`prompt`, a string `input`, `system`, `instructions`) are edited either way.',
      }),
    ),
    onlyIfEmpty: Type.Optional(
      Type.Boolean({
        default: false,
        description: 'Only where the text is empty; a message that is missing counts as empty.',
      }),
    ),
  },
  { additionalProperties: false },
);

/** The options as written. */
export type AddPrefixOptions = Static<typeof AddPrefixSchema>;
