/** The check for personal data with a recognisable form, most of it with check digits. */
import {
  type AnyCheck,
  type CheckResult,
  type CheckSubject,
  defineCheck,
  failed,
  type Judge,
  passed,
  skipped,
  Type,
  verdictOf,
} from '../../../core/pipeline/plugin.ts';
import { changeTexts, Not, strict, viewsOf } from './shared.ts';
import { cutsOf, redactText, type TextRule, namedPattern } from '../../../core/redaction/redact-text.ts';

/** Judging and redaction of checks that find kinds of things: they report the kinds and their numbers, never a text. */

/** Finds spans of a text, in time proportional to its length. */
type Find = TextRule['find'];

/** All matches of an expression that `isMeant` accepts. Its repetitions must be bounded. */
function found(expression: RegExp, isMeant: (text: string) => boolean = () => true): Find {
  return function* (text) {
    for (const match of text.matchAll(expression)) {
      const [whole] = match;
      if (isMeant(whole)) yield { start: match.index, end: match.index + whole.length };
    }
  };
}

/** Parameters that all of these checks have. */
const findingParameters = {
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
function judgeFindings<Kind extends string>(
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

/** How long the account numbers of each country are. */
const ibanLengths = new Map(
  (
    'AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 EE20 EG29 ES24 FI18 ' +
    'FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 ' +
    'LU20 LV21 LY25 MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 SA24 SC31 SE24 ' +
    'SI19 SK24 SM27 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20'
  )
    .split(' ')
    .map((one): [string, number] => [one.slice(0, 2), Number(one.slice(2))]),
);
const ibanStart = /(?<![A-Za-z0-9])[A-Za-z]{2}[0-9]{2}/g;
const isLetterOrDigit = /[A-Za-z0-9]/;

/** An account number (IBAN) with its country's length, single spaces or dashes between characters, and right check digits. */
function* ibans(text: string): ReturnType<Find> {
  for (const { index: start, 0: head } of text.matchAll(ibanStart)) {
    const length = ibanLengths.get(head.slice(0, 2).toUpperCase());
    if (length === undefined) continue;
    let compact = '';
    let end = start;
    while (compact.length < length && end < text.length) {
      const character = text[end] ?? '';
      if (isLetterOrDigit.test(character)) compact += character;
      else if (!/[ -]/.test(character) || !isLetterOrDigit.test(text[end + 1] ?? '')) break;
      end += 1;
    }
    if (compact.length !== length || isLetterOrDigit.test(text[end] ?? '')) continue;
    if (remainder97(compact.slice(4) + compact.slice(0, 4)) === 1) yield { start, end };
  }
}

/** Letters count as 10 to 35. */
function remainder97(text: string): number {
  let rest = 0;
  for (const character of text) {
    const value = Number.parseInt(character, 36);
    rest = (rest * (value > 9 ? 100 : 10) + value) % 97;
  }
  return rest;
}

/** Areas, groups and serial numbers that were never issued do not count. */
const ssn = found(
  /(?<![0-9A-Za-z-])(?!000|666|9)[0-9]{3}([- ])(?!00)[0-9]{2}\1(?!0000)[0-9]{4}(?![0-9A-Za-z]|-[0-9])/g,
);

function digitsOf(text: string): readonly number[] {
  return (text.match(/[0-9]/g) ?? []).map(Number);
}

/** The sum of digits, each times its weight. */
function weighted(digits: readonly number[], weights: readonly number[]): number {
  return weights.reduce((sum, weight, index) => sum + weight * (digits[index] ?? 0), 0);
}

/** DNI and NIE of Spain: the letter is the number modulo 23. */
function isSpanish(text: string): boolean {
  const plain = text.toUpperCase().replaceAll(/[ -]/g, '');
  const number = plain.slice(0, -1).replace(/^[XYZ]/, (first) => String('XYZ'.indexOf(first)));
  return 'TRWAGMYFPDXBNJZSQVHLCKE'[Number(number) % 23] === plain.at(-1);
}

const oddValues = [
  1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23,
];

/** The last letter of an Italian codice fiscale. */
function isItalian(text: string): boolean {
  const plain = text.toUpperCase();
  let sum = 0;
  for (let at = 0; at < 15; at += 1) {
    const code = plain.charCodeAt(at);
    const value = code < 65 ? code - 48 : code - 65;
    sum += at % 2 === 0 ? (oddValues[value] ?? 0) : value;
  }
  return plain.charCodeAt(15) - 65 === sum % 26;
}

/** Both check digits of a Brazilian CPF. */
function isBrazilian(text: string): boolean {
  const digits = digitsOf(text);
  const check = (count: number): number => {
    const weights = Array.from({ length: count }, (_, index) => count + 1 - index);
    return ((weighted(digits, weights) * 10) % 11) % 10;
  };
  return new Set(digits).size > 1 && check(9) === digits[9] && check(10) === digits[10];
}

/** The key of a French number: 97 less the rest; 2A and 2B are Corsica. */
function isFrench(text: string): boolean {
  const plain = text.toUpperCase().replaceAll(' ', '').replace('2A', '19').replace('2B', '18');
  return 97 - Number(BigInt(plain.slice(0, 13)) % 97n) === Number(plain.slice(13));
}

/** The last sign of a Chinese resident number. */
function isChinese(text: string): boolean {
  const weights = [7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2];
  const digits = [...text.slice(0, 17)].map(Number);
  return '10X98765432'[weighted(digits, weights) % 11] === text[17]?.toUpperCase();
}

/** The last sign of a Finnish personal identity code. */
function isFinnish(text: string): boolean {
  const number = Number(text.slice(0, 6) + text.slice(7, 10));
  return '0123456789ABCDEFHJKLMNPRSTUVWXY'[number % 31] === text[10]?.toUpperCase();
}

/** The last digit of a Polish PESEL. */
function isPolish(text: string): boolean {
  const digits = digitsOf(text);
  return (10 - (weighted(digits, [1, 3, 7, 9, 1, 3, 7, 9, 1, 3]) % 10)) % 10 === digits[10];
}

const day = '(?:0[1-9]|[12][0-9]|3[01])';
const month = '(?:0[1-9]|1[0-2])';

function alone(source: string): RegExp {
  return new RegExp(`(?<![0-9A-Za-z])(?:${source})(?![0-9A-Za-z])`, 'gi');
}

/** Numbers of persons by state. All but the British have check digits. */
const nationalIds: readonly Find[] = [
  found(alone('[XYZ]-?[0-9]{7}-?[A-Z]|[0-9]{8}-?[A-Z]'), isSpanish),
  found(alone('[A-Z]{6}[0-9LMNP-V]{2}[A-EHLMPRST][0-9LMNP-V]{2}[A-Z][0-9LMNP-V]{3}[A-Z]'), isItalian),
  found(alone('[0-9]{3}\\.[0-9]{3}\\.[0-9]{3}-[0-9]{2}'), isBrazilian),
  found(alone(`[12] ?[0-9]{2} ?${month} ?(?:[0-9]{2}|2[AB]) ?[0-9]{3} ?[0-9]{3} ?[0-9]{2}`), isFrench),
  found(alone(`[1-9][0-9]{5}(?:19|20)[0-9]{2}${month}${day}[0-9]{3}[0-9X]`), isChinese),
  found(alone(`${day}${month}[0-9]{2}[-+A-FU-Y][0-9]{3}[0-9A-Y]`), isFinnish),
  found(alone(`[0-9]{2}(?:[02468][1-9]|[13579][0-2])${day}[0-9]{5}`), isPolish),
  found(
    alone('(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[A-D]'),
  ),
];

/** In this order: of two findings that overlap, the one of the earlier kind counts. */
const finders = {
  EMAIL_ADDRESS: [namedPattern('email', '')],
  IBAN: [ibans],
  CREDIT_CARD: [namedPattern('credit_card', '')],
  SSN: [ssn],
  NATIONAL_ID: nationalIds,
  IP_ADDRESS: [namedPattern('ip_address', '')],
  PHONE_NUMBER: [namedPattern('phone', '')],
} as const satisfies Readonly<Record<string, readonly Find[]>>;
type Category = keyof typeof finders;
const categoryNames = Object.keys(finders) as Category[];

const pii = defineCheck({
  id: 'default.pii',
  aliases: ['portkey.pii'],
  description:
    'Fails when any text has personal data: e-mail addresses, phone numbers (with a country code, or as 3-3-4 digits), payment cards, IBANs, IP addresses, US social security numbers, and personal numbers of Brazil, Britain, China, Finland, France, Italy, Poland and Spain; check digits are verified where they exist. It does not look for names and postal addresses, which require a model. Reports the kinds and their number, never the data itself.',
  phases: ['input', 'output'],
  changes: true,
  schema: Type.Object(
    {
      categories: Type.Optional(
        Type.Array(Type.Enum(categoryNames), {
          minItems: 1,
          uniqueItems: true,
          description: 'Kinds to look for. Default: all.',
        }),
      ),
      ...findingParameters,
    },
    strict,
  ),
  create({ categories = categoryNames, redact, not }) {
    const asked = categoryNames.filter((name) => categories.includes(name));
    const chosen = new Map<Category, readonly Find[]>(asked.map((name) => [name, finders[name]]));
    return judgeFindings(chosen, { things: 'personal data', redact, not });
  },
});

/** The check for keys, tokens and passwords of services. */

/** A pattern that begins and ends as a word of keys does. */
function key(source: string): Find {
  return found(new RegExp(`(?<![A-Za-z0-9_-])(?:${source})`, 'g'));
}

function escaped(text: string): string {
  return text.replace(/[^A-Za-z0-9_]/g, (character) => `\\${character}`);
}

const beginKey = '-----BEGIN ';
const endOfBegin = /[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----/y;
const endOfKey = /-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----/g;

/** From its first line to its last one; to the end of the text when that is missing. */
function* privateKeys(text: string): ReturnType<Find> {
  let start = text.indexOf(beginKey);
  while (start !== -1) {
    endOfBegin.lastIndex = start + beginKey.length;
    let next = start + beginKey.length;
    if (endOfBegin.test(text)) {
      endOfKey.lastIndex = endOfBegin.lastIndex;
      next = endOfKey.exec(text) === null ? text.length : endOfKey.lastIndex;
      yield { start, end: next };
    }
    start = text.indexOf(beginKey, next);
  }
}

/** Bits for each character of a token that is taken for a secret. */
const leastEntropy = 4.2;
const longToken = /(?<![A-Za-z0-9+/=_.-])[A-Za-z0-9+/_-]{32,200}={0,2}(?![A-Za-z0-9+/=_-])/g;

/** Small and capital letters and digits, in no order. */
function looksRandom(token: string): boolean {
  if (!/[a-z]/.test(token) || !/[A-Z]/.test(token) || !/[0-9]/.test(token)) return false;
  const counts = new Map<string, number>();
  for (const character of token) counts.set(character, (counts.get(character) ?? 0) + 1);
  let entropy = 0;
  for (const count of counts.values()) entropy -= (count / token.length) * Math.log2(count / token.length);
  return entropy >= leastEntropy;
}

/** In this order: of two findings that overlap, the one of the earlier kind counts. */
const secretFinders = {
  PRIVATE_KEY: [privateKeys],
  JSON_WEB_TOKEN: [key('eyJ[A-Za-z0-9_-]{8,4000}\\.eyJ[A-Za-z0-9_-]{8,8000}(?:\\.[A-Za-z0-9_-]{0,2000})?')],
  AWS: [
    key('(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9_-])'),
    found(/(?<=aws.{0,20}(?:secret|access).{0,20}[=:] ?["']?)[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])/gi),
  ],
  GITHUB: [key('gh[oprsu]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{20,255}')],
  GITLAB: [key('gl(?:pat|ptt|dt|rt)-[A-Za-z0-9_-]{20,64}')],
  SLACK: [
    key('xox[abeoprs]-[A-Za-z0-9-]{10,255}|xapp-[A-Za-z0-9-]{10,255}'),
    found(/https:\/\/hooks\.slack\.com\/services\/[A-Za-z0-9/_-]{20,100}/g),
  ],
  STRIPE: [key('(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,255}|whsec_[A-Za-z0-9]{16,255}')],
  ANTHROPIC: [key('sk-ant-[A-Za-z0-9_-]{20,255}')],
  OPENAI: [key('sk-(?!ant-)[A-Za-z0-9_-]{20,255}')],
  GOOGLE: [key('AIza[A-Za-z0-9_-]{35}|GOCSPX-[A-Za-z0-9_-]{20,64}|ya29\\.[A-Za-z0-9_-]{20,1000}')],
  OTHER_SERVICE: [
    key(
      '(?:hf_|npm_|gsk_|xai-|r8_|pypi-|dop_v1_)[A-Za-z0-9_-]{20,255}|SG\\.[A-Za-z0-9_-]{16,64}\\.[A-Za-z0-9_-]{16,64}',
    ),
  ],
} as const satisfies Readonly<Record<string, readonly Find[]>>;
const kindNames = [
  ...(Object.keys(secretFinders) as (keyof typeof secretFinders)[]),
  'GATEWAY',
  'HIGH_ENTROPY',
] as const;
type Kind = (typeof kindNames)[number];

const secrets = defineCheck({
  id: 'default.secrets',
  description:
    'Fails when any text has a secret: private keys, JSON Web Tokens, keys of AWS, GitHub, GitLab, Slack, Stripe, Anthropic, OpenAI, Google and others by their prefix, keys of this gateway, and tokens of 32 to 200 random letters and digits (`HIGH_ENTROPY`, a heuristic). Reports the kinds and their number, never the secret itself.',
  phases: ['input', 'output'],
  changes: true,
  schema: Type.Object(
    {
      kinds: Type.Optional(
        Type.Array(Type.Enum([...kindNames]), {
          minItems: 1,
          uniqueItems: true,
          description: 'Kinds to look for. Default: all.',
        }),
      ),
      ...findingParameters,
    },
    strict,
  ),
  create({ kinds = kindNames, redact, not }, { keyPrefix }) {
    const all: Readonly<Record<Kind, readonly Find[]>> = {
      ...secretFinders,
      GATEWAY: keyPrefix === '' ? [] : [key(`${escaped(keyPrefix)}[A-Za-z0-9_-]{16,255}`)],
      HIGH_ENTROPY: [found(longToken, looksRandom)],
    };
    const asked = kindNames.filter((kind) => kinds.includes(kind));
    return judgeFindings(new Map(asked.map((kind) => [kind, all[kind]])), { things: 'secrets', redact, not });
  },
});

/** Checks that find personal data and secrets. */
export const findingChecks: readonly AnyCheck[] = [pii, secrets];
