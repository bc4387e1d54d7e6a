import { Type, type Static } from 'typebox';
import { pathPattern } from './json-path.ts';

const replacement = Type.Optional(
  Type.String({ maxLength: 200, default: '[redacted]', description: 'What stands in its place.' }),
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
          'What stands there in the JSON of requests and answers, in each event of a stream, and in the metadata of the request (`metadata.email`) is replaced, whatever it is.',
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
        { description: 'What looks like one.' },
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
          'What this regular expression matches, in the syntax of RE2: no look-around and no back-references, so that no text takes long. `(?i)` in front ignores case.',
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
    description: `What is taken out of ${what} before they are written anywhere. See docs/log-privacy.md.`,
  });
}

/** A rule as written. */
export type RedactionRuleOption = Static<typeof RedactionRule>;
