/** Judging and redaction of checks that find kinds of things: they report the kinds and their numbers, never a text. */
import { cutsOf, redactText, type TextRule } from '../../../core/redaction/redact-text.ts';
import {
  type CheckResult,
  type CheckSubject,
  failed,
  type Judge,
  passed,
  skipped,
  Type,
  verdictOf,
} from '../../../core/pipeline/plugin.ts';
import { changeTexts, Not, viewsOf } from './shared.ts';

/** Finds spans of a text, in time proportional to its length. */
export type Find = TextRule['find'];

/** All matches of an expression that `isMeant` accepts. Its repetitions must be bounded. */
export function found(expression: RegExp, isMeant: (text: string) => boolean = () => true): Find {
  return function* (text) {
    for (const match of text.matchAll(expression)) {
      const [whole] = match;
      if (isMeant(whole)) yield { start: match.index, end: match.index + whole.length };
    }
  };
}

/** Parameters that all of these checks have. */
export const findingParameters = {
  redact: Type.Optional(
    Type.Boolean({
      default: false,
      description: 'Replace each finding by its kind in brackets (`[EMAIL_ADDRESS]`), and pass.',
    }),
  ),
  not: Not,
};

/** Options of a check that judges findings. */
interface Asked {
  /** Common name of the kinds, for messages: `personal data`. */
  readonly things: string;
  readonly redact: boolean | undefined;
  readonly not: boolean | undefined;
}

/** Most rounds of redaction: a cut may leave a text that another kind finds. */
const mostRounds = 10;

/** Judges by the findings of each kind. */
export function judgeFindings<Kind extends string>(
  finders: ReadonlyMap<Kind, readonly Find[]>,
  { things, redact = false, not }: Asked,
): Judge {
  const rules = [...finders].flatMap(([kind, finds]) =>
    finds.map((find): TextRule => ({ find, replacement: `[${kind}]` })),
  );
  return (subject): CheckResult => {
    if (subject.texts.every(({ text }) => text === '')) return skipped('There is no text to look at.');
    const counts = countFindings(subject, rules);
    const count = [...counts.values()].reduce((sum, one) => sum + one, 0);
    const categories = [...counts].map(([kind, times]) => ({ category: kind.slice(1, -1), count: times }));
    const explanation = `The texts hold ${count === 0 ? 'no ' : ''}${things}.`;
    const data = { explanation, count, categories };
    if (count === 0 || !redact) return verdictOf(count === 0, not, data);
    changeTexts(subject, (text) => redactAll(text, rules));
    const isLeft = countFindings(subject, rules).size > 0;
    return isLeft
      ? failed(data)
      : passed({ ...data, explanation: `The texts held ${things}, which were replaced.` });
  };
}

function countFindings({ texts }: CheckSubject, rules: readonly TextRule[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const text of texts) {
    // In the arguments of a call, escaped findings are counted beside the plain ones.
    const cuts = viewsOf(text).map((view) => cutsOf(view, rules));
    for (const { replacement } of cuts.flat()) counts.set(replacement, (counts.get(replacement) ?? 0) + 1);
  }
  return counts;
}

function redactAll(text: string, rules: readonly TextRule[]): string {
  let redacted = redactText(text, rules);
  for (let round = 1, before = text; redacted !== before && round < mostRounds; round += 1) {
    before = redacted;
    redacted = redactText(before, rules);
  }
  return redacted;
}
