import { isIP } from 'node:net';

/** A finder of text to redact, with its replacement. */
export interface TextRule {
  readonly find: FindSpans;
  readonly replacement: string;
}

/** A span of a text with its replacement. */
export interface Cut extends Span {
  readonly replacement: string;
}

/** All spans that the rules find, in order; of two that overlap, the earlier rule wins. */
export function cutsOf(text: string, rules: readonly TextRule[]): readonly Cut[] {
  let cuts: Cut[] = [];
  for (const { find, replacement } of rules) {
    const found: Cut[] = [];
    for (const { start, end } of find(text)) if (end > start) found.push({ start, end, replacement });
    cuts = cuts.length === 0 ? found : merged(cuts, found);
  }
  return cuts;
}

/** The text with its cuts applied. */
export function redactText(text: string, rules: readonly TextRule[]): string {
  const cuts = text === '' ? [] : cutsOf(text, rules);
  if (cuts.length === 0) return text;
  let redacted = '';
  let from = 0;
  for (const { start, end, replacement } of cuts) {
    redacted += text.slice(from, start) + replacement;
    from = end;
  }
  return redacted + text.slice(from);
}

/**
 * The same for a text in pieces: a span may cross several of them. Each replacement goes to the piece in which its span
 * begins.
 */
export function redactPieces(pieces: readonly string[], rules: readonly TextRule[]): readonly string[] {
  return redactCuts(pieces, cutsOf(pieces.join(''), rules));
}

/** Applies cuts in the joined pieces to the single pieces. */
export function redactCuts(pieces: readonly string[], cuts: readonly Cut[]): readonly string[] {
  if (cuts.length === 0) return pieces;
  let offset = 0;
  let next = 0;
  return pieces.map((piece) => {
    const end = offset + piece.length;
    let redacted = '';
    let from = offset;
    for (; next < cuts.length; next += 1) {
      const cut = cuts[next] as Cut;
      if (cut.start >= end) break;
      if (cut.start >= offset) redacted += piece.slice(from - offset, cut.start - offset) + cut.replacement;
      from = Math.min(cut.end, end);
      if (cut.end > end) break;
    }
    redacted += piece.slice(from - offset);
    offset = end;
    return redacted;
  });
}

/** Both lists in order, without those of the second that overlap one of the first. */
function merged(first: readonly Cut[], second: readonly Cut[]): Cut[] {
  const all: Cut[] = [];
  let at = 0;
  for (const cut of second) {
    for (let one = first[at]; one !== undefined && one.end <= cut.start; one = first[(at += 1)])
      all.push(one);
    const following = first[at];
    if (following === undefined || following.start >= cut.end) all.push(cut);
  }
  return [...all, ...first.slice(at)];
}

/** A stretch of a text, by UTF-16 units. */
interface Span {
  readonly start: number;
  readonly end: number;
}

/** Finds spans of a text, in order and without overlaps. Takes time linear in the text, whatever its content. */
type FindSpans = (text: string) => Iterable<Span>;

/** Built-in patterns. */
type PatternName = 'email' | 'phone' | 'credit_card' | 'api_key' | 'ip_address';

const longestLocalPart = 64;

/** By code, because every character before an `@` is tested. */
const isOfLocalPart = Uint8Array.from({ length: 128 }, (_, code) =>
  /[A-Za-z0-9._%+-]/.test(String.fromCharCode(code)) ? 1 : 0,
);

const domain = /[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}\.){1,8}[A-Za-z]{2,24}/y;

/** Goes from one `@` to the next, so that long texts without any cost nothing. */
function* emails(text: string): Generator<Span> {
  let last = 0;
  for (let at = text.indexOf('@'); at !== -1; at = text.indexOf('@', Math.max(at + 1, last))) {
    let start = at;
    while (start > last && at - start < longestLocalPart && isOfLocalPart[text.charCodeAt(start - 1)] === 1)
      start -= 1;
    domain.lastIndex = at + 1;
    if (start === at || !domain.test(text)) continue;
    last = domain.lastIndex;
    yield { start, end: last };
  }
}

/** Every repetition is bounded, or is last and begins at the start of such a run: there is no backtracking. */
function matches(expression: RegExp, isMeant: (text: string) => boolean = () => true): FindSpans {
  return function* (text) {
    expression.lastIndex = 0;
    for (let found = expression.exec(text); found !== null; found = expression.exec(text)) {
      const [match] = found;
      if (isMeant(match)) {
        const end = expression.lastIndex;
        yield { start: found.index, end };
        expression.lastIndex = end;
      } else {
        expression.lastIndex = found.index + 1;
      }
    }
  };
}

/** With a country code, or as three groups of three, three and four digits. */
const phone =
  /(?<![\w+])\+[0-9]{1,3}(?:[ .()-]{0,2}[0-9]){6,13}(?![0-9])|(?<![\w+.-])\(?[0-9]{3}\)?[ .-][0-9]{3}[ .-][0-9]{4}(?![\w-])/g;

const card = /(?<![0-9])[0-9](?:[ -]?[0-9]){12,18}(?![0-9])/g;

const before = '(?<![A-Za-z0-9_-])';

const word = '[A-Za-z0-9_-]';

const address =
  /(?<![0-9A-Za-z:.])(?:(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9A-Za-z]|\.[0-9])|(?:[0-9A-Fa-f]{0,4}:){2,7}(?:(?:[0-9]{1,3}\.){3}[0-9]{1,3}|[0-9A-Fa-f]{0,4})(?![0-9A-Za-z:]))/g;

/** Key prefixes of providers and services, and JSON Web Tokens. */
function apiKey(ownPrefix: string): RegExp {
  const own = ownPrefix.replace(/[^A-Za-z0-9_-]/g, (character) => `\\${character}`);
  const kinds = [
    `(?:sk|pk|rk|whsec)[-_]${word}{16,}`,
    `(?:gh[oprsu]_|github_pat_|hf_|gsk_|xai-|glpat-|npm_|r8_${own === '' ? '' : `|${own}`})${word}{16,}`,
    `xox[abeoprs]-${word}{10,}`,
    `(?:AKIA|ASIA)[A-Z0-9]{16}(?!${word})`,
    `AIza${word}{30,}`,
    `eyJ${word}{8,}\\.eyJ${word}{8,}(?:\\.${word}*)?`,
  ];
  return new RegExp(`${before}(?:${kinds.join('|')})`, 'g');
}

/** Finder of a named pattern; `keyPrefix` is the prefix of this gateway's own keys. */
export function namedPattern(name: PatternName, keyPrefix: string): FindSpans {
  switch (name) {
    case 'email':
      return emails;
    case 'phone':
      return matches(phone);
    case 'credit_card':
      return matches(card, passesLuhn);
    case 'api_key':
      return matches(apiKey(keyPrefix));
    case 'ip_address':
      return matches(address, (text) => isIP(text) !== 0 && /[0-9A-Fa-f]/.test(text));
  }
}

/** Checks the check digit of payment cards. */
function passesLuhn(text: string): boolean {
  let sum = 0;
  let isSecond = false;
  for (let at = text.length - 1; at >= 0; at -= 1) {
    const digit = text.charCodeAt(at) - 48;
    if (digit < 0 || digit > 9) continue;
    const twice = isSecond ? digit * 2 : digit;
    sum += twice > 9 ? twice - 9 : twice;
    isSecond = !isSecond;
  }
  return sum % 10 === 0;
}
