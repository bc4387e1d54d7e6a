import type { Clock } from '../../core/ports/clock.ts';
import { asText, parseObject, type JsonObject } from '../dialects/json-reading.ts';
import { credentialsFailed, type TokenStep } from './credential-errors.ts';
import type { IssuedToken } from './token-cache.ts';
import { fetchForStep, type TokenFetch, type TokenRequest } from './token-fetch.ts';

/** Of a token whose answer does not say: 5 minutes. */
const unknownLifetimeMs = 300_000;

/** What asking an OAuth endpoint needs beside the request. */
export interface OAuthAsking {
  readonly fetch: TokenFetch;
  readonly clock: Clock;
  readonly step: TokenStep;
}

/** The access token of an OAuth 2 answer. Rejects with `credentials_failed` for everything else. */
export async function fetchOAuthToken(
  { fetch, clock, step }: OAuthAsking,
  request: Omit<TokenRequest, 'timeoutMs'>,
): Promise<IssuedToken<string>> {
  const { status, body } = await fetchForStep(fetch, step, request);
  const host = new URL(request.url).host;
  const answer = parseObject(body);
  const token = asText(answer?.access_token);
  if (status !== 200 || answer === undefined || token === undefined) {
    const said = answer === undefined ? 'without JSON' : saidBy(answer);
    throw credentialsFailed(step, `${host} answered ${status} ${said}`);
  }
  // Whatever stands in a header must be one: a token with a line break would be two.
  if (!/^[\x21-\x7e]+$/.test(token)) throw credentialsFailed(step, `${host} answered a token that is none`);
  return { value: token, lifetimeMs: lifetimeOf(answer, clock) };
}

/** The body of a form post. */
export function formRequest(
  url: string,
  form: Readonly<Record<string, string>>,
): Omit<TokenRequest, 'timeoutMs'> {
  return {
    url,
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' },
    body: new URLSearchParams(form).toString(),
  };
}

function saidBy(answer: JsonObject): string {
  const description = asText(answer.error_description) ?? asText(answer.message);
  const said = [asText(answer.error), description].filter((part) => part !== undefined);
  return said.length === 0 ? 'without access_token' : said.join(': ');
}

function lifetimeOf(answer: JsonObject, clock: Clock): number {
  const seconds = secondsOf(answer.expires_in);
  if (seconds !== undefined) return seconds * 1_000;
  const endSeconds = secondsOf(answer.expires_on);
  return endSeconds === undefined ? unknownLifetimeMs : Math.max(0, endSeconds * 1_000 - clock.now());
}

/** Some endpoints write numbers as text. */
function secondsOf(value: unknown): number | undefined {
  const seconds = typeof value === 'string' && /^\d+(\.\d+)?$/.test(value) ? Number(value) : value;
  return typeof seconds === 'number' && Number.isFinite(seconds) && seconds >= 0 ? seconds : undefined;
}
