import { Type } from 'typebox';
import { canaryRules } from '../organisation/canary-rules.ts';
import { section } from './describe-schema.ts';

const { share, duration_s, max_error_rise, max_refusal_rise, max_latency_rise, min_requests } = canaryRules;

/** Section `changes`: how a new configuration is tried. */
export const Changes = Type.Object(
  {
    canary: Type.Optional(
      Type.Object(
        {
          share: Type.Optional(Type.Number({ ...share, default: 10 })),
          duration_s: Type.Optional(Type.Integer({ ...duration_s, default: 300 })),
          max_error_rise: Type.Optional(Type.Number({ ...max_error_rise, default: 1 })),
          max_refusal_rise: Type.Optional(Type.Number({ ...max_refusal_rise, default: 1 })),
          max_latency_rise: Type.Optional(Type.Number({ ...max_latency_rise, default: 50 })),
          min_requests: Type.Optional(Type.Integer({ ...min_requests, default: 20 })),
        },
        {
          ...section,
          description:
            'When a canary of `weir apply` is taken back. [safe-change.md](safe-change.md) explains it.',
        },
      ),
    ),
  },
  { ...section, description: 'How changes of this configuration are tried.' },
);
