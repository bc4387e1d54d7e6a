import { Type } from 'typebox';

/** Rules of a canary of the configuration, as they are written. */
export const canaryRules = {
  share: Type.Number({
    exclusiveMinimum: 0,
    maximum: 50,
    description:
      'Largest share of the requests that the new configuration gets, in percent. It begins with 0.5.',
  }),
  duration_s: Type.Integer({
    minimum: 5,
    maximum: 86_400,
    description: 'How long it is watched, in seconds. Its share grows in the first half of them.',
  }),
  max_error_rise: Type.Number({
    minimum: 0,
    maximum: 100,
    description: 'Percentage points by which its share of 5xx and broken answers may be above the old one.',
  }),
  max_refusal_rise: Type.Number({
    minimum: 0,
    maximum: 100,
    description: 'Percentage points by which its share of 4xx may be above the old one.',
  }),
  max_latency_rise: Type.Number({
    minimum: 0,
    maximum: 10_000,
    description: 'Percent by which its median latency may be above the old one.',
  }),
  min_requests: Type.Integer({
    minimum: 0,
    maximum: 1_000_000,
    description: 'Requests that it has to serve before it may become the configuration.',
  }),
};
