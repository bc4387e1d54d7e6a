import { isMap, isScalar, isSeq, Lexer, parseDocument, type Scalar } from 'yaml';
import { isSecretName } from './ajv.ts';

/** Names of values that are secret, or may lead to one. */
const mayBeSecret = /secret|key|token|passw|credential|auth|cookie|cert|signature|salt|header|env/i;
/** Names that the expression above takes for secret: they hold the beginnings of names, or numbers. */
const plainName = /^(header_prefix|header_aliases|key_prefix)$/;
const countOfTokens = /tokens?$/i;
/** Texts that look like credentials, whatever their names. */
const credential = /\b(sk-|wk_|xox[abp]-|gh[pousr]_|github_pat_|AKIA|AIza|eyJ)[\w.-]{12,}/;
const userOfAddress = /:\/\/[^/\s@]*[^/\s@:][^/\s@]*@/;
const queryOfAddress = /^[a-z][a-z0-9+.-]*:\/\/[^?\s]*\?./i;
/** References that hold nothing themselves: `${NAME}` and `${file:PATH}`, and not `${NAME:-value}`. */
const references = /\$\{(?:file:[^}]*|[A-Za-z_][A-Za-z0-9_]*(?::-)?)\}/g;
/** What may stand around a reference: `Bearer ${TOKEN}`. */
const around = /^(?:(?:bearer|basic|token|key)\s)?\s*$/i;
/** A setting that is commented out: `# - api_key: value`. */
const commentedSetting = /^(#+\s*(?:-\s+)?["']?([\w.-]+)["']?\s*[:=]\s*)(\S.*)$/;
/** What the lexer adds to a text to tell its parts apart. */
const scalarMark = '\u001f';
const marks: ReadonlySet<string> = new Set(['\u0002', '\u0018', scalarMark]);
/** A mask, with the quotes that a user may have changed. */
const mask = /(["']?)\*\*\*(\d+)\*\*\*\1/g;

/** Whether a value under this name may be secret. */
export function mayBeSecretName(name: string): boolean {
  return isSecretName(name) || mayBeSecret.test(name);
}

/** Whether a text looks like a key, or is an address with a password or a query. */
export function holdsCredential(text: string): boolean {
  return credential.test(text) || userOfAddress.test(text) || queryOfAddress.test(text);
}

/** A part of a text that is not shown. */
interface Hidden {
  readonly from: number;
  readonly to: number;
  /** It is a value, not a part of a comment: its mask stands in quotes. */
  readonly isValue: boolean;
}

/** A text whose secrets are masked. */
interface MaskedText {
  readonly text: string;
  /** What the masks stand for: the first one for `***1***`. */
  readonly secrets: readonly string[];
}

/** A text with its secrets in place of masks. */
interface UnmaskedText {
  readonly text: string;
  /** Masks that stand for nothing, as offsets in the text with masks. */
  readonly unknown: readonly number[];
  /** The offset in the text with masks of one in `text`. */
  masked(offset: number): number;
}

/**
 * Replaces each literal secret of a YAML text by a mask: values under secret names, credentials in addresses, texts
 * that look like keys, also in comments. References to variables and files stay. Undefined for a text that is no
 * valid YAML: what is secret in it cannot be told.
 */
export function maskText(text: string): MaskedText | undefined {
  const hidden = secretsOf(text);
  if (hidden === undefined) return undefined;
  const secrets: string[] = [];
  let shown = '';
  let at = 0;
  // Values and comments do not overlap.
  for (const { from, to, isValue } of [...hidden].sort((a, b) => a.from - b.from)) {
    secrets.push(text.slice(from, to));
    const name = `***${secrets.length}***`;
    shown += text.slice(at, from) + (isValue ? `"${name}"` : name);
    at = to;
  }
  return { text: shown + text.slice(at), secrets };
}

/** Puts the secrets back. */
export function unmaskText(text: string, secrets: readonly string[]): UnmaskedText {
  const unknown: number[] = [];
  /** Ends of what was replaced, in both texts. */
  const steps: { readonly plain: number; readonly masked: number }[] = [];
  let plain = '';
  let at = 0;
  for (const found of text.matchAll(mask)) {
    const secret = secrets[Number(found[2]) - 1];
    if (secret === undefined) {
      unknown.push(found.index);
      continue;
    }
    plain += text.slice(at, found.index);
    steps.push({ plain: plain.length, masked: found.index });
    plain += secret;
    at = found.index + found[0].length;
    steps.push({ plain: plain.length, masked: at });
  }
  return {
    text: plain + text.slice(at),
    unknown,
    masked(offset) {
      const index = steps.findLastIndex((step) => step.plain <= offset);
      const step = steps[index];
      if (step === undefined) return offset;
      // Within a secret: where its mask begins.
      return index % 2 === 0 ? step.masked : step.masked + offset - step.plain;
    },
  };
}

function secretsOf(text: string): readonly Hidden[] | undefined {
  const document = parseDocument(text, { version: '1.2', uniqueKeys: false, logLevel: 'silent' });
  if (document.errors.length > 0) return undefined;
  const hidden: Hidden[] = [];
  const walk = (node: unknown, name: string, isSecret: boolean): void => {
    if (isMap(node)) {
      for (const { key, value } of node.items) {
        const member = isScalar(key) ? String(key.value) : '';
        // A plugin's own name says nothing of its options: `auth: { … }`.
        const isNamed = !(isMap(value) && name === 'plugins') && isSecretMember(member);
        walk(value, member, isSecret || isNamed);
      }
    } else if (isSeq(node)) {
      for (const item of node.items) walk(item, name, isSecret);
    } else if (isScalar(node) && isHidden(node, name, isSecret)) {
      const span = spanOf(node, text);
      if (span !== undefined) hidden.push({ ...span, isValue: true });
    }
  };
  walk(document.contents, '', false);
  return [...hidden, ...commentSecrets(text)];
}

function isSecretMember(name: string): boolean {
  return !plainName.test(name) && mayBeSecretName(name);
}

function isHidden({ value }: Scalar, name: string, isSecret: boolean): boolean {
  if (typeof value === 'number' || typeof value === 'bigint') return isSecret && !countOfTokens.test(name);
  if (typeof value !== 'string' || value === '') return false;
  const literal = value.replace(references, '');
  if (isSecret && !(literal !== value && around.test(literal)) && literal !== '') return true;
  return holdsCredential(literal);
}

/** Where a scalar is written, without the line end of a block. */
function spanOf({ range }: Scalar, text: string): { from: number; to: number } | undefined {
  if (range === undefined || range === null) return undefined;
  const [from, end] = range;
  let to = end;
  while (to > from && /[\r\n]/.test(text[to - 1] ?? '')) to -= 1;
  return to > from ? { from, to } : undefined;
}

/** Secrets in comments: values of settings that are commented out, and texts that look like credentials. */
function commentSecrets(text: string): readonly Hidden[] {
  const hidden: Hidden[] = [];
  let at = 0;
  let before = '';
  for (const lexeme of new Lexer().lex(text)) {
    const isMark = marks.has(lexeme);
    // After this mark comes the text of a block.
    if (!isMark && lexeme.startsWith('#') && before !== scalarMark)
      hidden.push(
        ...inComment(lexeme).map(({ from, to }) => ({ from: at + from, to: at + to, isValue: false })),
      );
    if (!isMark) at += lexeme.length;
    before = lexeme;
  }
  return hidden;
}

function inComment(comment: string): readonly { readonly from: number; readonly to: number }[] {
  const span = (from: number, found: string) => ({ from, to: from + found.length });
  const [, head = '', name = '', value = ''] = commentedSetting.exec(comment) ?? [];
  if (isSecretMember(name) && !around.test(value.replace(references, '').replace(/["']/g, '')))
    return [span(head.length, value)];
  if (userOfAddress.test(comment)) return [span(1, comment.slice(1))];
  const found = credential.exec(comment);
  return found === null ? [] : [span(found.index, found[0])];
}
