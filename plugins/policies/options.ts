import { Type, type Static } from '../../core/pipeline/plugin.ts';

/** Options of `policies`. */
export const PoliciesSchema = Type.Object(
  {
    max_groups: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1_000_000,
        default: 10_000,
        description:
          'How many groups of one policy are counted at once in a process, where callers choose the groups (`metadata.*`, `model`, `provider` …). A request that would begin another one is refused until one has been idle for the length of its window.',
      }),
    ),
    on_store_failure: Type.Optional(
      Type.Union([Type.Literal('local'), Type.Literal('open'), Type.Literal('closed')], {
        default: 'local',
        description:
          'What happens while the shared counters (`storage.counters`) do not answer within 50 ms: `local` counts in this process, `open` lets requests through uncounted, `closed` refuses them with 503 `limits_unavailable`. The same holds for the limits of the providers that the request goes to.',
      }),
    ),
  },
  { additionalProperties: false },
);

/** The options as written. */
export type PoliciesOptions = Static<typeof PoliciesSchema>;
