import type { VerifiedToken, TokenVerifierOptions } from '../../core/ports/token-verifier.ts';
import { quoteClaim, tokenInvalid } from '../../core/errors/gateway-error.ts';

type Rules = Pick<TokenVerifierOptions, 'issuers' | 'audiences' | 'clockToleranceMs'>;

/** Seconds since the epoch beyond which there is no date. */
const lastSecond = 8.64e12;

/** Checks what a verified token says of its time, issuer and audience. Throws `token_invalid`. */
export function checkClaims(
  claims: Readonly<Record<string, unknown>>,
  rules: Rules,
  now: number,
): VerifiedToken {
  const { clockToleranceMs: tolerance } = rules;
  const expiresAt = timeOf(claims, 'exp');
  const validFrom = timeOf(claims, 'nbf');
  const issuedAt = timeOf(claims, 'iat');
  if (expiresAt === undefined) throw tokenInvalid('has no claim "exp". Only tokens that expire are taken.');
  if (now >= expiresAt + tolerance)
    throw tokenInvalid(`expired at ${new Date(expiresAt).toISOString()}. Get a new one.`);
  if (validFrom !== undefined && now < validFrom - tolerance)
    throw tokenInvalid(`is not valid before ${new Date(validFrom).toISOString()} (nbf). Use it then.`);
  if (issuedAt !== undefined && now < issuedAt - tolerance)
    throw tokenInvalid(
      `was issued at ${new Date(issuedAt).toISOString()} (iat), which is yet to come. Check the clocks.`,
    );
  checkIssuer(claims['iss'], rules.issuers);
  checkAudience(claims['aud'], rules.audiences);
  return { claims, expiresAt };
}

function timeOf(claims: Readonly<Record<string, unknown>>, name: 'exp' | 'nbf' | 'iat'): number | undefined {
  const value = claims[name];
  if (value === undefined) return undefined;
  if (typeof value === 'number' && value >= 0 && value <= lastSecond) return Math.floor(value * 1000);
  throw tokenInvalid(`has a claim "${name}" that is no time in seconds since 1970.`);
}

function checkIssuer(issuer: unknown, accepted: readonly string[]): void {
  if (accepted.length === 0 || (typeof issuer === 'string' && accepted.includes(issuer))) return;
  throw tokenInvalid(
    issuer === undefined
      ? 'names no issuer (iss), and this gateway accepts only certain ones.'
      : `was issued by ${quoteClaim(issuer)} (iss), which is not accepted here. Use one of the issuer that is.`,
  );
}

function checkAudience(audience: unknown, accepted: readonly string[]): void {
  if (accepted.length === 0) return;
  const named: readonly unknown[] = Array.isArray(audience) ? audience : [audience];
  if (named.some((one) => typeof one === 'string' && accepted.includes(one))) return;
  throw tokenInvalid(
    audience === undefined
      ? 'names no audience (aud), and this gateway takes only tokens that are meant for it.'
      : `is meant for ${quoteClaim(audience)} (aud), not for this gateway. Ask for one with its audience.`,
  );
}
