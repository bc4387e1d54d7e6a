/**
 * Checks that look for something in every text: expressions and words.
 *
 * Their `reach` bounds the span of a finding where a finding alone decides, so that a streamed answer can be judged as it
 * comes. It is `Infinity` where only the whole answer can tell: a match must be there (`not: false`), matches have no
 * greatest length, or the expression depends on the text around a match (`^`, `$`, `\b`).
 */
import { boundedPattern, findLinearly } from '../../../core/base/linear-pattern.ts';
import {
  defineCheck,
  failed,
  linearPattern,
  passed,
  skipped,
  Type,
  verdictOf,
} from '../../../core/pipeline/plugin.ts';
import {
  changeTexts,
  compiledOf,
  expressionFaults,
  expressionOf,
  holdsFor,
  mostSteps,
  Not,
  OperatorOf,
  strict,
  viewsOfAll,
} from './shared.ts';

const Rule = Type.String({
  minLength: 1,
  maxLength: 10_000,
  examples: ['/ignore (all|previous) instructions/i'],
  description:
    "An expression in RE2's syntax, or `/expression/flags` with the flags i, m and s (g, u and d change nothing). It cannot look ahead or behind and has no back-references, so that it takes time in proportion to the text.",
});

const nothing = 'There is no text to look at.';

/** Longest match of an expression; Infinity when it has none, or when the text around a match decides. */
function longestMatch(rule: string): number {
  const { source } = expressionOf(rule);
  const bare = source.replaceAll(/\\[^bBAz]/g, '').replaceAll('[^', '[');
  if (/\\[bBAz]|[\^$]/.test(bare)) return Infinity;
  const bounded = boundedPattern(source, mostSteps);
  return typeof bounded === 'string' ? Infinity : bounded.longest;
}

export const regexMatch = defineCheck({
  id: 'default.regexMatch',
  description:
    'Passes when an expression is found in any of the texts; with `not`, when it is found in none of them.',
  phases: ['input', 'output'],
  schema: Type.Object({ rule: Rule, not: Not }, strict),
  check: ({ rule }) => expressionFaults('/rule', rule, (source) => linearPattern(source, mostSteps)),
  reach: ({ rule, not }) => (not === true ? longestMatch(rule) : Infinity),
  create({ rule, not }) {
    const pattern = compiledOf(rule, (source) => linearPattern(source, mostSteps));
    return (subject) => {
      const views = viewsOfAll(subject);
      if (views.length === 0) return skipped(nothing);
      const isFound = views.some((view) => pattern.test(view));
      const explanation = `The expression is ${isFound ? '' : 'not '}found.`;
      return verdictOf(isFound, not, { explanation, rule });
    };
  },
});

export const regexReplace = defineCheck({
  id: 'default.regexReplace',
  description:
    'Replaces every match of an expression in all texts; in arguments of tool calls it replaces matches in strings, keys and numbers. Passes, unless `failOnDetection` is set and a match was found.',
  phases: ['input', 'output'],
  changes: true,
  schema: Type.Object(
    {
      rule: Rule,
      redactText: Type.Optional(
        Type.String({
          maxLength: 1000,
          default: '[REDACTED]',
          description: 'Replacement of each match, taken literally: `$1` has no special meaning.',
        }),
      ),
      failOnDetection: Type.Optional(
        Type.Boolean({ default: false, description: 'Fail when a match was found.' }),
      ),
    },
    strict,
  ),
  check: ({ rule }) => expressionFaults('/rule', rule, (source) => findLinearly(source, mostSteps)),
  reach: ({ rule }) => longestMatch(rule),
  create({ rule, redactText = '[REDACTED]', failOnDetection = false }) {
    const find = compiledOf(rule, (source) => findLinearly(source, mostSteps));
    return (subject) => {
      if (subject.texts.every(({ text }) => text === '')) return skipped(nothing);
      let count = 0;
      const replace = (text: string): string => {
        let replaced = '';
        let from = 0;
        for (const { start, end } of find(text)) {
          // An empty match would insert the replacement everywhere.
          if (end === start) continue;
          count += 1;
          replaced += text.slice(from, start) + redactText;
          from = end;
        }
        return from === 0 ? text : replaced + text.slice(from);
      };
      const isFound = viewsOfAll(subject).some((view) => hasMatch(find(view)));
      if (isFound) changeTexts(subject, replace);
      const explanation = isFound
        ? 'What the expression finds was replaced.'
        : 'The expression is not found.';
      const data = { explanation, count };
      return isFound && failOnDetection ? failed(data) : passed(data);
    };
  },
});

function hasMatch(matches: Iterable<{ readonly start: number; readonly end: number }>): boolean {
  for (const { start, end } of matches) if (end > start) return true;
  return false;
}

export const contains = defineCheck({
  id: 'default.contains',
  description: 'Looks for words in all texts: passes when any, all or none of them are present.',
  phases: ['input', 'output'],
  schema: Type.Object(
    {
      words: Type.Array(Type.String({ minLength: 1, maxLength: 1000 }), {
        minItems: 1,
        maxItems: 10_000,
        description: 'Words or phrases. They also match within longer words.',
      }),
      operator: OperatorOf('words', 'any'),
      caseSensitive: Type.Optional(
        Type.Boolean({ default: true, description: 'Whether the comparison is case-sensitive.' }),
      ),
    },
    strict,
  ),
  reach: ({ words, operator }) =>
    operator === 'none' ? words.reduce((longest, { length }) => Math.max(longest, length), 0) : Infinity,
  create({ words, operator = 'any', caseSensitive = true }) {
    const asked = [...new Set(words)];
    const folded = (text: string): string => (caseSensitive ? text : text.toLowerCase());
    return (subject) => {
      const views = viewsOfAll(subject).map(folded);
      if (views.length === 0) return skipped(nothing);
      const found = asked.filter((word) => views.some((view) => view.includes(folded(word))));
      const holds = holdsFor(operator, found.length, asked.length);
      return verdictOf(holds, false, {
        explanation: `${found.length} of ${asked.length} words are found; ${operator} must be.`,
        operator,
        foundWords: found.slice(0, 20),
      });
    };
  },
});
