/**
 * Checks that look for something in every text: expressions and words.
 *
 * Their `reach` bounds the span of a finding where a finding alone decides, so that a streamed answer can be judged as it
 * comes. It is `Infinity` where only the whole answer can tell: a match must be there (`not: false`), matches have no
 * greatest length, or the expression depends on the text around a match (`^`, `$`, `\b`).
 */
import { boundedPattern, findLinearly } from '../../../core/base/linear-pattern.ts';
import {
  type AnyCheck,
  type CheckDefinition,
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
  expressions,
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
  const { source } = expressions.of(rule);
  const bare = source.replaceAll(/\\[^bBAz]/g, '').replaceAll('[^', '[');
  if (/\\[bBAz]|[\^$]/.test(bare)) return Infinity;
  const bounded = boundedPattern(source, mostSteps);
  return typeof bounded === 'string' ? Infinity : bounded.longest;
}

const regexMatch = defineCheck({
  id: 'default.regexMatch',
  description:
    'Passes when an expression is found in any of the texts; with `not`, when it is found in none of them.',
  phases: ['input', 'output'],
  schema: Type.Object({ rule: Rule, not: Not }, strict),
  check: ({ rule }) => expressions.faults('/rule', rule, (source) => linearPattern(source, mostSteps)),
  reach: ({ rule, not }) => (not === true ? longestMatch(rule) : Infinity),
  create({ rule, not }) {
    const pattern = expressions.compiled(rule, (source) => linearPattern(source, mostSteps));
    return (subject) => {
      const views = viewsOfAll(subject);
      if (views.length === 0) return skipped(nothing);
      const isFound = views.some((view) => pattern.test(view));
      const explanation = `The expression is ${isFound ? '' : 'not '}found.`;
      return verdictOf(isFound, not, { explanation, rule });
    };
  },
});

const regexReplace = defineCheck({
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
  check: ({ rule }) => expressions.faults('/rule', rule, (source) => findLinearly(source, mostSteps)),
  reach: ({ rule }) => longestMatch(rule),
  create({ rule, redactText = '[REDACTED]', failOnDetection = false }) {
    const find = expressions.compiled(rule, (source) => findLinearly(source, mostSteps));
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

const contains = defineCheck({
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

/** Checks of the text that an answer or a request ends with: its length, its letter case, its ending. */

const Bound = (usual: number, description: string) =>
  Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000_000, default: usual, description }));

/** Writing without spaces: each of its characters counts as a word. */
const ideographs = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]/gu;
const words = /[\p{L}\p{N}\p{M}_'’-]+/gu;
const isWord = /[\p{L}\p{N}]/u;

/** Of the first 128 characters: 2 makes a word, 1 stands within one, 0 ends it. */
const inWord = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = String.fromCharCode(code);
  return isWord.test(character) ? 2 : /[_'-]/.test(character) ? 1 : 0;
});

/** Only ASCII characters take one byte each. */
function isAscii(text: string): boolean {
  return Buffer.byteLength(text) === text.length;
}

/** The expressions would take four times the time. */
function countAsciiWords(text: string): number {
  let count = 0;
  let before = 0;
  const codes = Buffer.from(text, 'latin1');
  // An iterator over the bytes takes twice the time.
  for (let at = 0; at < codes.length; at += 1) {
    const kind = inWord[codes[at] as number] as number;
    // Two when this character is the first of its run that makes a word.
    count += kind & ~before & 2;
    before = kind === 0 ? 0 : before | kind;
  }
  return count / 2;
}

function countWords(text: string): number {
  if (isAscii(text)) return countAsciiWords(text);
  let count = 0;
  const spaced = text.replace(ideographs, () => {
    count += 1;
    return ' ';
  });
  for (const [word] of spaced.matchAll(words)) if (isWord.test(word)) count += 1;
  return count;
}

/** An end that a space, a closing quote or the end of the text follows; the wide ones need no follower. */
const sentenceEnd = /[.!?…]["'”’)\]»]?(?=\s|$)|[。！？]/g;

/** Text behind the last sentence end counts as a sentence, too. */
function countSentences(text: string): number {
  let count = 0;
  let from = 0;
  const count1 = (to: number): void => {
    if (isWord.test(text.slice(from, to))) count += 1;
    from = to;
  };
  for (const { index, 0: end } of text.matchAll(sentenceEnd)) count1(index + end.length);
  count1(text.length);
  return count;
}

/** Code points: a letter beyond the first plane is one character. */
function countCharacters(text: string): number {
  if (isAscii(text)) return text.length;
  let count = text.length;
  for (let at = 0; at < text.length - 1; at += 1) {
    if ((text.codePointAt(at) ?? 0) <= 0xffff) continue;
    count -= 1;
    at += 1;
  }
  return count;
}

/** The verdict on a number that must lie between two others. */
function between(thing: string, count: number, [least, most]: readonly [number, number], not?: boolean) {
  const isWithin = count >= least && count <= most;
  const explanation = `The text has ${count} ${thing}, which is ${isWithin ? '' : 'not '}from ${least} to ${most}.`;
  return verdictOf(isWithin, not, { explanation, count, least, most });
}

function boundsFaults(things: string, least: number, most: number) {
  if (least <= most) return [];
  const message = `is ${least}, which is more than max${things} (${most}); exchange them`;
  return [{ path: `/min${things}`, message }];
}

const sentenceCount = defineCheck({
  id: 'default.sentenceCount',
  description:
    'Passes when the text has from `minSentences` to `maxSentences` sentences. A sentence ends with . ! ? or … before a space, so that an abbreviation also counts as an end.',
  phases: ['input', 'output'],
  schema: Type.Object(
    {
      minSentences: Bound(0, 'Fewest sentences.'),
      maxSentences: Bound(99_999, 'Most sentences.'),
      not: Not,
    },
    strict,
  ),
  check: ({ minSentences = 0, maxSentences = 99_999 }) =>
    boundsFaults('Sentences', minSentences, maxSentences),
  create({ minSentences = 0, maxSentences = 99_999, not }) {
    return ({ text }) =>
      text === ''
        ? skipped(nothing)
        : between('sentences', countSentences(text), [minSentences, maxSentences], not);
  },
});

const wordCount = defineCheck({
  id: 'default.wordCount',
  description:
    'Passes when the text has from `minWords` to `maxWords` words: runs of letters and digits. Chinese and Japanese characters count as a word each.',
  phases: ['input', 'output'],
  schema: Type.Object(
    { minWords: Bound(0, 'Fewest words.'), maxWords: Bound(99_999, 'Most words.'), not: Not },
    strict,
  ),
  check: ({ minWords = 0, maxWords = 99_999 }) => boundsFaults('Words', minWords, maxWords),
  create({ minWords = 0, maxWords = 99_999, not }) {
    return ({ text }) =>
      text === '' ? skipped(nothing) : between('words', countWords(text), [minWords, maxWords], not);
  },
});

const characterCount = defineCheck({
  id: 'default.characterCount',
  description:
    'Passes when the text has from `minCharacters` to `maxCharacters` characters (Unicode code points), spaces included.',
  phases: ['input', 'output'],
  schema: Type.Object(
    {
      minCharacters: Bound(0, 'Fewest characters.'),
      maxCharacters: Bound(9_999_999, 'Most characters.'),
      not: Not,
    },
    strict,
  ),
  check: ({ minCharacters = 0, maxCharacters = 9_999_999 }) =>
    boundsFaults('Characters', minCharacters, maxCharacters),
  create({ minCharacters = 0, maxCharacters = 9_999_999, not }) {
    return ({ text }) =>
      text === ''
        ? skipped(nothing)
        : between('characters', countCharacters(text), [minCharacters, maxCharacters], not);
  },
});

/** Letters that are written large or small; a text without any is neither. */
const cased = /[\p{Lu}\p{Ll}]/u;
const OnlyNot = Type.Object({ not: Not }, strict);

function caseCheck(
  names: Pick<AnyCheck, 'id' | 'aliases'>,
  letters: 'capital' | 'small',
): CheckDefinition<typeof OnlyNot> {
  const other = letters === 'capital' ? /\p{Ll}/u : /\p{Lu}/u;
  return {
    ...names,
    description: `Passes when all letters of the text are ${letters} ones.`,
    phases: ['input', 'output'],
    schema: OnlyNot,
    create:
      ({ not }) =>
      ({ text }) => {
        if (!cased.test(text)) return skipped('The text has no letters that could be capital or small.');
        const holds = !other.test(text);
        return verdictOf(holds, not, {
          explanation: `The letters of the text are ${holds ? 'all' : 'not all'} ${letters} ones.`,
        });
      },
  };
}

const allUppercase = defineCheck(
  caseCheck({ id: 'default.alluppercase', aliases: ['default.isAllUpperCase'] }, 'capital'),
);

const allLowercase = defineCheck(
  caseCheck({ id: 'default.alllowercase', aliases: ['default.isAllLowerCase'] }, 'small'),
);

const endsWith = defineCheck({
  id: 'default.endsWith',
  description: 'Passes when the text ends with a suffix. White space and one full stop after it are ignored.',
  phases: ['input', 'output'],
  schema: Type.Object(
    {
      suffix: Type.String({ minLength: 1, maxLength: 10_000, description: 'Required end of the text.' }),
      not: Not,
    },
    strict,
  ),
  create({ suffix, not }) {
    return ({ text }) => {
      if (text === '') return skipped(nothing);
      const end = text.trimEnd();
      const holds = text.endsWith(suffix) || end.endsWith(suffix) || end.endsWith(`${suffix}.`);
      return verdictOf(holds, not, {
        explanation: `The text ${holds ? 'ends' : 'does not end'} with the suffix.`,
        suffix: suffix.slice(0, 200),
      });
    };
  },
});

const notNull = defineCheck({
  id: 'default.notNull',
  description:
    'Passes when there is content: a text that is not only white space, or a tool call. With `not`, passes when there is none.',
  phases: ['input', 'output'],
  schema: OnlyNot,
  create({ not }) {
    return ({ text, texts, json }) => {
      if (json === undefined) return skipped('There is no JSON to look at.');
      const holds =
        text.trim() !== '' || texts.some(({ type, text: one }) => type !== 'reasoning' && one.trim() !== '');
      return verdictOf(holds, not, { explanation: holds ? 'Something is said.' : 'Nothing is said.' });
    };
  },
});

/** Checks of texts: expressions, words, lengths, letter case. */
export const textChecks: readonly AnyCheck[] = [
  regexMatch,
  regexReplace,
  contains,
  sentenceCount,
  wordCount,
  characterCount,
  allUppercase,
  allLowercase,
  endsWith,
  notNull,
];
