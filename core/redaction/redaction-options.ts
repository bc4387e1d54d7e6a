import { Type, type Static } from 'typebox';

/** One step of a path: a member by name, any member, an element by index, any element, or any depth. */
type PathStep =
  | { readonly kind: 'member'; readonly name: string }
  | { readonly kind: 'element'; readonly index: number }
  | { readonly kind: 'any-member' | 'any-element' | 'any-depth' };

const name = '[A-Za-z0-9_$-]+';

const quoted = '"[^"\\\\\\u0000-\\u001f]+"';

const member = `(?:\\*\\*\\.)?(?:${name}|${quoted}|\\*)`;

const element = '\\[(?:\\*|[0-9]{1,6})\\]';

/**
 * Pattern of a path, for the schema: members between dots (`messages`, `*` for any, `"a name with dots"`, `**.name` for
 * one at any depth), elements in brackets (`[0]`, `[*]`).
 */
export const pathPattern = `^(?:${member}|${element})(?:\\.${member}|${element})*$`;

const step = new RegExp(`\\.?(?:(${name})|(${quoted})|(\\*{1,2})|\\[(\\*|[0-9]{1,6})\\])`, 'gy');

/** Parses a path that fits `pathPattern`. */
export function parsePath(path: string): readonly PathStep[] {
  return Array.from(path.matchAll(step), ([, plain, inQuotes, stars, place]): PathStep => {
    if (plain !== undefined) return { kind: 'member', name: plain };
    if (inQuotes !== undefined) return { kind: 'member', name: inQuotes.slice(1, -1) };
    if (stars !== undefined) return { kind: stars === '*' ? 'any-member' : 'any-depth' };
    return place === '*' ? { kind: 'any-element' } : { kind: 'element', index: Number(place) };
  });
}

/** A path to redact, with its replacement. */
export interface PathRule {
  readonly steps: readonly PathStep[];
  readonly replacement: string;
}

/** Progress of a path on the way down a document. */
export interface PathState {
  readonly rule: PathRule;
  /** Index of the next step. */
  readonly next: number;
}

/** A member's name, or an element's index. */
type Place = string | number;

/** States of the paths below a member or an element; the rule of the first path that ends there, if any. */
export function descend(states: readonly PathState[], place: Place): readonly PathState[] | PathRule {
  if (states.length === 0) return states;
  const below: PathState[] = [];
  for (const { rule, next } of states) {
    const isDeep = rule.steps[next]?.kind === 'any-depth';
    if (isDeep) below.push({ rule, next });
    // Any depth includes none: the next step may match here already.
    const at = isDeep ? next + 1 : next;
    if (!fits(rule.steps[at], place)) continue;
    if (at + 1 === rule.steps.length) return rule;
    below.push({ rule, next: at + 1 });
  }
  return below;
}

function fits(step: PathStep | undefined, place: Place): boolean {
  switch (step?.kind) {
    case 'member':
      return step.name === place;
    case 'element':
      return step.index === place;
    case 'any-member':
      return typeof place === 'string';
    case 'any-element':
      return typeof place === 'number';
    default:
      return false;
  }
}

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
