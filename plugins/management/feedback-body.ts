import { Type } from '../../core/pipeline/plugin.ts';
import { strict } from './text-schema.ts';

const opinion = {
  value: Type.Integer({ minimum: -10, maximum: 10, examples: [5], description: 'From -10 to 10.' }),
  weight: Type.Optional(
    Type.Number({ minimum: 0, maximum: 1, description: 'How much it counts. Default 1, or as before.' }),
  ),
  metadata: Type.Optional(
    Type.Record(Type.String({ maxLength: 255 }), Type.Unknown(), {
      maxProperties: 50,
      examples: [{ comment: 'helpful' }],
      description: 'At most 50 values by name, 16 KiB as JSON.',
    }),
  ),
};

const One = Type.Object(
  {
    trace_id: Type.String({
      minLength: 1,
      maxLength: 255,
      examples: ['0198a1c2-7b3e-7c4d-8e5f-6a7b8c9d0e1f'],
      description: 'The trace that was answered: what the request said, else its request id.',
    }),
    ...opinion,
  },
  strict,
);

/** What gives feedback: one, or a list of 100 at the most. */
export const CreateFeedback = Type.Union([One, Type.Array(One, { minItems: 1, maxItems: 100 })]);

/** What changes feedback. Some clients repeat the id of the path. */
export const UpdateFeedback = Type.Object(
  { ...opinion, feedback_id: Type.Optional(Type.String({ maxLength: 64 })) },
  strict,
);

/** What both routes answer with. */
export const FeedbackReply = Type.Object({
  status: Type.Literal('success'),
  message: Type.String(),
  feedback_ids: Type.Array(Type.String()),
});
