import type { Clock } from '../../core/ports/clock.ts';
import { credentialsFailed, type TokenStep } from './credential-errors.ts';
import { SigV4Signer, type AwsKeys } from './sigv4.ts';
import type { IssuedToken } from './token-cache.ts';
import { fetchForStep, type TokenFetch } from './token-fetch.ts';

/** Which role, and with whose keys. */
export interface AssumedRole {
  readonly keys: AwsKeys;
  readonly roleArn: string;
  readonly externalId: string | undefined;
  readonly region: string;
  /** Of STS: `https://sts.us-east-1.amazonaws.com`. */
  readonly endpoint: string;
}

/** The STS of a region; China has its own domain. */
export function stsEndpoint(region: string): string {
  return `https://sts.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`;
}

/** Keys of the role, for about an hour. Rejects with `credentials_failed` and what STS says. */
export async function assumeRole(
  role: AssumedRole,
  fetch: TokenFetch,
  clock: Clock,
): Promise<IssuedToken<AwsKeys>> {
  const step: TokenStep = {
    what: 'The AWS role cannot be assumed',
    remedy: 'Check aws_role_arn, aws_external_id, the keys and the trust policy of the role',
    secrets: secretsOf(role),
  };
  const { status, body } = await fetchForStep(fetch, step, signedRequest(role, clock));
  if (status !== 200) {
    const said = [elementOf(body, 'Code'), elementOf(body, 'Message')].filter((one) => one !== undefined);
    throw credentialsFailed(step, `STS answered ${status} ${said.join(': ')}`.trim());
  }
  const credentials = /<Credentials>(.*?)<\/Credentials>/s.exec(body)?.[1] ?? '';
  const read = (name: string): string => {
    const value = elementOf(credentials, name);
    if (value === undefined) throw credentialsFailed(step, `STS answered 200 without a single ${name}`);
    return value;
  };
  const keys = {
    accessKeyId: read('AccessKeyId'),
    secretAccessKey: read('SecretAccessKey'),
    sessionToken: read('SessionToken'),
  };
  const endMs = Date.parse(read('Expiration'));
  if (Number.isNaN(endMs))
    throw credentialsFailed(step, 'STS answered 200 with an Expiration that is no time');
  return { value: keys, lifetimeMs: Math.max(0, endMs - clock.now()) };
}

function signedRequest({ keys, roleArn, externalId, region, endpoint }: AssumedRole, clock: Clock) {
  const form = new URLSearchParams({
    Action: 'AssumeRole',
    Version: '2011-06-15',
    RoleArn: roleArn,
    RoleSessionName: 'weir',
  });
  if (externalId !== undefined) form.set('ExternalId', externalId);
  const body = form.toString();
  const { origin } = new URL(endpoint);
  const contentType = 'application/x-www-form-urlencoded; charset=utf-8';
  const signer = new SigV4Signer({ keys, region, service: 'sts' });
  const signed = signer.sign(
    { method: 'POST', origin, path: '/', headers: ['content-type', contentType], body: Buffer.from(body) },
    clock.now(),
  );
  const headers: Record<string, string> = { 'content-type': contentType };
  for (let i = 0; i < signed.length; i += 2) headers[signed[i] as string] = signed[i + 1] as string;
  return { url: `${origin}/`, method: 'POST', headers, body };
}

function secretsOf({ keys, externalId }: AssumedRole): string[] {
  return [keys.secretAccessKey, keys.sessionToken ?? '', externalId ?? ''];
}

/** The text of the only element of this name; undefined for none, several or an empty one. */
function elementOf(xml: string, name: string): string | undefined {
  const parts = xml.split(`<${name}>`);
  const [text = '', rest] = (parts[1] ?? '').split(`</${name}>`);
  if (parts.length !== 2 || rest === undefined || text.trim() === '' || text.includes('<')) return undefined;
  return text
    .trim()
    .replaceAll(/&(lt|gt|quot|apos|amp);/g, (_, entity: keyof typeof entities) => entities[entity]);
}

const entities = { lt: '<', gt: '>', quot: '"', apos: "'", amp: '&' } as const;
