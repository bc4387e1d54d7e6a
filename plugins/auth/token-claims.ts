import { isStorable } from '../../core/organisation/fields.ts';
import { tokenInvalid } from '../../core/errors/gateway-error.ts';
import type { ApiKeyDefaults } from '../../core/ports/resources.ts';
import { defaultClaims, type TokenOptions } from './token-options.ts';

type Claims = Readonly<Record<string, unknown>>;

/** What is taken from the claims of a token. */
export interface TokenIdentity {
  readonly issuer: string;
  readonly subject: string;
  /** Undefined where the token says nothing. */
  readonly organisation: string | undefined;
  readonly workspace: string | undefined;
  /** Empty when it names nobody. */
  readonly user: string;
  /** As written; undefined without a claim of scopes. */
  readonly scopes: readonly string[] | undefined;
  readonly defaults: ApiKeyDefaults | undefined;
  /** Names of claims that limit what may be used. */
  readonly limitClaims: readonly string[];
}

const longestText = 255;
const longestValue = 1024;
const maxMetadata = 50;
const maxScopes = 500;

/** Reads the claims, by the names that the configuration gives them. Throws `token_invalid`. */
export function readClaims(claims: Claims, { claims: names = {} }: TokenOptions): TokenIdentity {
  const text = (of: 'organisation' | 'workspace' | 'user'): string | undefined =>
    textOf(present(claims, names[of] ?? defaultClaims[of]));
  return {
    issuer: textOf(present(claims, ['iss'])) ?? '',
    subject: textOf(present(claims, ['sub'])) ?? '',
    organisation: text('organisation'),
    workspace: text('workspace'),
    user: text('user') ?? '',
    scopes: scopesOf(present(claims, names.scopes ?? defaultClaims.scopes)),
    defaults: defaultsOf(present(claims, names.defaults ?? defaultClaims.defaults)),
    limitClaims: ['usage_limits', 'rate_limits'].filter((name) => saysSomething(claims[name])),
  };
}

/** Whether a claim is there, and is no empty list or object. */
function saysSomething(value: unknown): boolean {
  if (value === undefined || value === null) return false;
  return typeof value !== 'object' || Object.keys(value).length > 0;
}

interface Claim {
  readonly name: string;
  readonly value: unknown;
}

/** The first of these claims that the token has. */
function present(claims: Claims, names: readonly string[]): Claim | undefined {
  const name = names.find((one) => Object.hasOwn(claims, one) && claims[one] !== null);
  return name === undefined ? undefined : { name, value: claims[name] };
}

function textOf(claim: Claim | undefined): string | undefined {
  if (claim === undefined) return undefined;
  const { name, value } = claim;
  if (isText(value, longestText)) return value;
  throw tokenInvalid(`has a claim "${name}" that is no text of 1 to ${longestText} characters.`);
}

function isText(value: unknown, longest: number): value is string {
  return typeof value === 'string' && value !== '' && value.length <= longest && isStorable(value);
}

function scopesOf(claim: Claim | undefined): readonly string[] | undefined {
  if (claim === undefined) return undefined;
  const { name, value } = claim;
  const list: unknown = typeof value === 'string' ? value.split(' ').filter((part) => part !== '') : value;
  if (Array.isArray(list) && list.length <= maxScopes && list.every((one) => typeof one === 'string'))
    return list;
  throw tokenInvalid(
    `has a claim "${name}" that is neither a text of scopes separated by spaces nor a list of at most ${maxScopes} of them.`,
  );
}

function defaultsOf(claim: Claim | undefined): ApiKeyDefaults | undefined {
  if (claim === undefined) return undefined;
  const { name, value } = claim;
  const refuse = (what: string): Error => tokenInvalid(`has a claim "${name}" ${what}.`);
  if (!isObject(value)) throw refuse('that is no object');
  const { config_id: configId, metadata } = value;
  if (configId !== undefined && !isText(configId, longestText))
    throw refuse(`whose "config_id" is no text of 1 to ${longestText} characters`);
  if (metadata !== undefined && !isMetadata(metadata))
    throw refuse(
      `whose "metadata" is no object of at most ${maxMetadata} texts, each of at most ${longestValue} characters`,
    );
  return {
    ...(configId !== undefined && { configId }),
    ...(metadata !== undefined && { metadata }),
  };
}

function isMetadata(value: unknown): value is Readonly<Record<string, string>> {
  if (!isObject(value)) return false;
  const members = Object.entries(value);
  return (
    members.length <= maxMetadata &&
    members.every(([name, text]) => isText(name, longestText) && (text === '' || isText(text, longestValue)))
  );
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
