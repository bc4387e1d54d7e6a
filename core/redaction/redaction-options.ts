import { Type, type Static } from 'typebox';
import { pathPattern } from './json-path.ts';

const replacement = Type.Optional(
  Type.String({ maxLength: 200, default: '[redacted]', description: 'Replacement text.' }),
);
const strict = { additionalProperties: false } as const;

/** One rule of `redact`. */
const RedactionRule = Type.Union([
  Type.Object(
    {
      path: Type.String({
        minLength: 1,
        maxLength: 256,
        pattern: pathPattern,
        'x-expected': 'a path such as messages[*].content, metadata.email, tools or **.password',
        description:
          'Path whose value is replaced, whatever its type, in the JSON of requests and answers, in each event of a stream, and in the metadata of the request (`metadata.email`).',
      }),
      replacement,
    },
    strict,
  ),
  Type.Object(
    {
      pattern: Type.Union(
        [
          Type.Literal('email'),
          Type.Literal('phone'),
          Type.Literal('credit_card'),
          Type.Literal('api_key'),
          Type.Literal('ip_address'),
        ],
        { description: 'Kind of data that is recognised and replaced.' },
      ),
      replacement,
    },
    strict,
  ),
  Type.Object(
    {
      expression: Type.String({
        minLength: 1,
        maxLength: 500,
        description:
          'Regular expression whose matches are replaced, in the syntax of RE2: no look-around and no back-references, so that matching takes linear time. `(?i)` in front ignores case.',
      }),
      replacement,
    },
    strict,
  ),
]);

/** Rules of `redact`, for the options of plugins that write into the log; `what`: the content that they write there. */
export function redactionRules(what: string) {
  return Type.Array(RedactionRule, {
    maxItems: 64,
    description: `Data to remove from ${what} before they are written anywhere. See docs/log-privacy.md.`,
  });
}

/** A rule as written. */
export type RedactionRuleOption = Static<typeof RedactionRule>;
