import { Type } from 'typebox';
import { section } from './schema-section.ts';

const days = (fallback: number, description: string) =>
  Type.Optional(Type.Integer({ default: fallback, minimum: 0, maximum: 99_999, description }));

/** Section `retention`: when the analytics store deletes rows by itself. */
export const Retention = Type.Object(
  {
    logs_days: days(90, 'Days that log rows of requests are kept; 0: for ever.'),
    bodies_days: days(
      30,
      'Days that logged bodies (what was sent and answered) are kept; 0: for ever. They are nearly all that a log takes on disk.',
    ),
    metrics_days: days(
      365,
      'Days that the roll-ups behind graphs are kept, and feedback; 0: for ever. Graphs show what is older than `logs_days` from them.',
    ),
  },
  {
    ...section,
    description:
      'How long the analytics store keeps rows, by the time of their acceptance. A change needs a restart, which applies it to the rows that are there. See docs/clickhouse.md.',
  },
);
