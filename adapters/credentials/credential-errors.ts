import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { CredentialFields } from '../../core/ports/credentials.ts';

/** Longest part of a message that comes from outside, in characters. */
const maxQuoted = 500;

/** A credential field that is missing or malformed. The message never holds its value. */
export function fieldProblem(field: string, why: string): GatewayError {
  return new GatewayError('invalid_request', `The credential field "${field}" ${why}`, { param: field });
}

/** The field's value. Throws `invalid_request` when there is none. */
export function requireField(fields: CredentialFields, name: string, purpose: string): string {
  const value = fieldOf(fields, name);
  if (value === undefined) throw fieldProblem(name, `is missing: ${purpose}`);
  return value;
}

/** The field's value without white space around it; undefined when it is absent or empty. */
export function fieldOf(fields: CredentialFields, name: string): string | undefined {
  const value = Object.hasOwn(fields, name) ? fields[name]?.trim() : undefined;
  return value === '' ? undefined : value;
}

/** One step on the way to a token, for the messages of its failures. */
export interface TokenStep {
  /** What could not be had: `No access token of Google`. */
  readonly what: string;
  /** What to look at: `Check vertex_service_account_json`. */
  readonly remedy: string;
  /** Values that were sent and must not come back in a message. */
  readonly secrets: readonly string[];
}

/** A token could not be had. What the other side says is quoted without the secrets that were sent to it. */
export function credentialsFailed(step: TokenStep, why: string, cause?: unknown): GatewayError {
  const text = withoutSecrets(why, step.secrets);
  return new GatewayError('credentials_failed', `${step.what}: ${text}. ${step.remedy}.`, { cause });
}

/** Shorter values are no secrets, and replacing them would make the message unreadable. */
const minSecretLength = 6;

/** As one line of a log. An answer may quote the form that it was sent, so secrets are looked for as encoded there, too. */
function withoutSecrets(text: string, secrets: readonly string[]): string {
  let clean = text;
  for (const secret of secrets) {
    if (secret.length < minSecretLength) continue;
    const encoded = new URLSearchParams([['', secret]]).toString().slice(1);
    clean = clean.replaceAll(secret, '[secret]').replaceAll(encoded, '[secret]');
  }
  return clean
    .replaceAll(/[\p{Cc}\s]+/gu, ' ')
    .trim()
    .slice(0, maxQuoted)
    .replace(/\.$/, '');
}
