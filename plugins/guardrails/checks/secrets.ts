/** The check for keys, tokens and passwords of services. */
import { defineCheck, Type } from '../../../core/pipeline/plugin.ts';
import { type Find, found, findingParameters, judgeFindings } from './findings.ts';
import { strict } from './shared.ts';

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
const finders = {
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
const kindNames = [...(Object.keys(finders) as (keyof typeof finders)[]), 'GATEWAY', 'HIGH_ENTROPY'] as const;
type Kind = (typeof kindNames)[number];

export const secrets = defineCheck({
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
      ...finders,
      GATEWAY: keyPrefix === '' ? [] : [key(`${escaped(keyPrefix)}[A-Za-z0-9_-]{16,255}`)],
      HIGH_ENTROPY: [found(longToken, looksRandom)],
    };
    const asked = kindNames.filter((kind) => kinds.includes(kind));
    return judgeFindings(new Map(asked.map((kind) => [kind, all[kind]])), { things: 'secrets', redact, not });
  },
});
