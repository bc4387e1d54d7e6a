import { describeValue } from '../../config/describe-value.ts';
import { reachOfPattern } from './pattern-cost.ts';

const longestPattern = 1000;

/**
 * The test of `$regex`, or what is wrong with its operand: no text, no valid expression, or one that could take too
 * long on a text that somebody chose to that end.
 */
export function compilePattern(operand: unknown): ((value: unknown) => boolean) | string {
  if (typeof operand !== 'string') return `must be a text, not ${describeValue(operand)}`;
  if (operand.length > longestPattern)
    return `has more than ${longestPattern} characters; split it with "$or" or list the values with "$in"`;
  const source = essential(operand);
  let pattern: RegExp;
  try {
    pattern = new RegExp(source);
  } catch (error) {
    return `is no valid regular expression: ${reasonOf(error)}`;
  }
  const reach = reachOfPattern(source);
  if (typeof reach === 'string') return reach;
  return (value) => {
    const text =
      typeof value === 'string'
        ? value
        : typeof value === 'number' || typeof value === 'bigint'
          ? String(value)
          : undefined;
    if (text === undefined) return false;
    return pattern.test(text.length > reach ? text.slice(0, reach) : text);
  };
}

/** Whatever may stand before or behind changes nothing about whether there is a match, and looking for it costs a round. */
function essential(source: string): string {
  const begun = source.replace(/^(?:\.\*\??)+/, '');
  const ended = begun.replace(/\.\*\??$/, '');
  // An escaped dot is a character that must be looked for.
  const escapes = /\\*$/.exec(ended)?.[0].length ?? 0;
  return escapes % 2 === 0 ? ended : begun;
}

/** The engine repeats the whole expression before its reason. */
function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message.slice(message.lastIndexOf(': ') + 1).trim();
}
