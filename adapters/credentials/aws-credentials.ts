import { createHmac, createHash } from 'node:crypto';
import { decodePercent } from '../../core/base/bytes.ts';
import type { CredentialFields, Credentials, SignableRequest } from '../../core/ports/credentials.ts';
import { headerValue } from '../../core/ports/header-list.ts';
import {
  type CredentialContext,
  credentialField,
  credentialsFailed,
  fetchForStep,
  type IssuedToken,
  staticBearer,
  TokenCache,
  type TokenFetch,
  type TokenStep,
} from './credential-context.ts';
import type { Clock } from '../../core/ports/clock.ts';

/** The request that a presigned address allows. */
interface PresignedRequest {
  readonly method: string;
  /** Scheme, host and port. */
  readonly origin: string;
  /** Path with its query, encoded as it is sent. */
  readonly path: string;
  /** Lifetime of the address: 1 to 604,800 seconds. */
  readonly seconds: number;
}

/** Longest lifetime that AWS accepts, in seconds. */
const maxLifetimeSeconds = 604_800;

/** An address that allows its holder this one S3 request until it expires (Signature Version 4 in the query). */
export function presign(
  { method, origin, path, seconds }: PresignedRequest,
  { keys, region }: { readonly keys: AwsKeys; readonly region: string },
  nowMs: number,
): string {
  const time = new Date(nowMs).toISOString().replaceAll(/[-:]|\.\d+/g, '');
  const scope = `${time.slice(0, 8)}/${region}/s3/aws4_request`;
  const added = new URLSearchParams({
    'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
    'X-Amz-Credential': `${keys.accessKeyId}/${scope}`,
    'X-Amz-Date': time,
    'X-Amz-Expires': String(Math.min(maxLifetimeSeconds, Math.max(1, Math.floor(seconds)))),
    'X-Amz-SignedHeaders': 'host',
    ...(keys.sessionToken !== undefined && { 'X-Amz-Security-Token': keys.sessionToken }),
  });
  const whole = `${path}${path.includes('?') ? '&' : '?'}${added.toString()}`;
  const signed = canonicalHeaders(['host', new URL(origin).host]);
  const canonical = canonicalRequest(
    { method, origin, path: whole, headers: [], body: null },
    ...([signed, 'UNSIGNED-PAYLOAD', false] as const),
  );
  const toSign = `AWS4-HMAC-SHA256\n${time}\n${scope}\n${hashOf(canonical)}`;
  const dayKey = [time.slice(0, 8), region, 's3', 'aws4_request'].reduce<string | Buffer>(
    (key, part) => createHmac('sha256', key).update(part).digest(),
    `AWS4${keys.secretAccessKey}`,
  );
  const signature = createHmac('sha256', dayKey).update(toSign).digest('hex');
  return `${origin}${whole}&X-Amz-Signature=${signature}`;
}

/** Permanent or temporary AWS keys. */
export interface AwsKeys {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

interface SigV4SignerOptions {
  readonly keys: AwsKeys;
  /** `us-east-1`. */
  readonly region: string;
  /** Name of the service in signatures: `bedrock`, `sts`, `s3`. */
  readonly service: string;
  /**
   * Selects the signed headers by lower-case name. Default `content-type`, `content-md5` and `x-amz-…`; intermediaries
   * may change the others. `host` is always signed.
   */
  readonly covers?: (name: string) => boolean;
}

/**
 * Signs requests with AWS Signature Version 4. Path segments are encoded twice, as every service except S3 requires;
 * for S3 the hash of the body is sent as `x-amz-content-sha256`.
 */
export class SigV4Signer {
  readonly #keys: AwsKeys;
  readonly #region: string;
  readonly #service: string;
  readonly #covers: (name: string) => boolean;
  /** Signing keys are derived per day; the most recent day is cached. */
  #day = '';
  #dayKey = Buffer.alloc(0);

  constructor({ keys, region, service, covers = isCovered }: SigV4SignerOptions) {
    this.#keys = keys;
    this.#region = region;
    this.#service = service;
    this.#covers = covers;
  }

  /** Headers to set, flat: `authorization`, `x-amz-date` and others that the keys need. `nowMs`: wall clock. */
  sign(request: SignableRequest, nowMs: number): string[] {
    const time = new Date(nowMs).toISOString().replaceAll(/[-:]|\.\d+/g, '');
    const payloadHash = hashOf(request.body ?? '');
    const added = ['x-amz-date', time];
    if (this.#keys.sessionToken !== undefined) added.push('x-amz-security-token', this.#keys.sessionToken);
    if (this.#service === 's3') added.push('x-amz-content-sha256', payloadHash);
    const signed = canonicalHeaders([...this.#covered(request), ...added]);
    const canonical = canonicalRequest(request, signed, payloadHash, this.#service !== 's3');
    const scope = `${time.slice(0, 8)}/${this.#region}/${this.#service}/aws4_request`;
    const toSign = `AWS4-HMAC-SHA256\n${time}\n${scope}\n${hashOf(canonical)}`;
    const signature = hmac(this.#keyOf(time.slice(0, 8)), toSign).toString('hex');
    const authorization =
      `AWS4-HMAC-SHA256 Credential=${this.#keys.accessKeyId}/${scope}, ` +
      `SignedHeaders=${headerNames(signed)}, Signature=${signature}`;
    return [...added, 'authorization', authorization];
  }

  #covered({ origin, headers }: SignableRequest): string[] {
    const covered = ['host', headerValue(headers, 'host') ?? new URL(origin).host];
    for (let i = 0; i < headers.length; i += 2) {
      const name = (headers[i] as string).toLowerCase();
      if (!replaced.has(name) && this.#covers(name)) covered.push(name, headers[i + 1] as string);
    }
    return covered;
  }

  #keyOf(day: string): Buffer {
    if (this.#day !== day) {
      const dated = hmac(`AWS4${this.#keys.secretAccessKey}`, day);
      this.#dayKey = hmac(hmac(hmac(dated, this.#region), this.#service), 'aws4_request');
      this.#day = day;
    }
    return this.#dayKey;
  }
}

/** Set by the signature itself, or added already. */
const replaced: ReadonlySet<string> = new Set([
  'host',
  'authorization',
  'x-amz-date',
  'x-amz-security-token',
  'x-amz-content-sha256',
]);

function isCovered(name: string): boolean {
  return name === 'content-type' || name === 'content-md5' || name.startsWith('x-amz-');
}

function hmac(key: string | Buffer, text: string): Buffer<ArrayBuffer> {
  return createHmac('sha256', key).update(text).digest();
}

/** The headers that a signature covers, sorted, lower-case, with their values as they are signed. */
type SignedHeaders = readonly (readonly [name: string, value: string])[];

/** The text that signer and AWS must build identically (Signature Version 4, canonical request). */
function canonicalRequest(
  request: SignableRequest,
  signed: SignedHeaders,
  payloadHash: string,
  pathIsEncodedTwice: boolean,
): string {
  const [path = '', query = ''] = splitOnce(request.path);
  const headers = signed.map(([name, value]) => `${name}:${value}\n`).join('');
  return [
    request.method.toUpperCase(),
    pathIsEncodedTwice ? canonicalPath(path) : plainPath(path),
    canonicalQuery(query),
    headers,
    headerNames(signed),
    payloadHash,
  ].join('\n');
}

/** `content-type;host;x-amz-date`. */
function headerNames(signed: SignedHeaders): string {
  return signed.map(([name]) => name).join(';');
}

/** SHA-256 in hexadecimal. */
function hashOf(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}

/** Values of one name joined with commas, white space folded, sorted by name. `headers` is flat. */
function canonicalHeaders(headers: readonly string[]): SignedHeaders {
  const values = new Map<string, string>();
  for (let i = 0; i < headers.length; i += 2) {
    const name = (headers[i] as string).toLowerCase();
    const value = (headers[i + 1] as string).trim().replaceAll(/\s+/g, ' ');
    const before = values.get(name);
    values.set(name, before === undefined ? value : `${before},${value}`);
  }
  return [...values].sort(([a], [b]) => compare(a, b));
}

/** The path as sent, without dot segments and double slashes, each segment encoded once more. */
function canonicalPath(path: string): string {
  const segments: string[] = [];
  for (const segment of path.split('/')) {
    if (segment === '..') segments.pop();
    else if (segment !== '' && segment !== '.') segments.push(encode(segment));
  }
  const tail = segments.length > 0 && path.endsWith('/') ? '/' : '';
  return `/${segments.join('/')}${tail}`;
}

/** The path as S3 requires it: nothing removed, encoded once. */
function plainPath(path: string): string {
  return path
    .split('/')
    .map((segment) => encode(decodePercent(segment)))
    .join('/');
}

function canonicalQuery(query: string): string {
  if (query === '') return '';
  return query
    .split('&')
    .filter((pair) => pair !== '')
    .map((pair) => {
      const at = pair.indexOf('=');
      const [name, value] = at === -1 ? [pair, ''] : [pair.slice(0, at), pair.slice(at + 1)];
      return [encode(decodePercent(name)), encode(decodePercent(value))] as const;
    })
    .sort(([nameA, valueA], [nameB, valueB]) => compare(nameA, nameB) || compare(valueA, valueB))
    .map(([name, value]) => `${name}=${value}`)
    .join('&');
}

function splitOnce(path: string): string[] {
  const at = path.indexOf('?');
  return at === -1 ? [path] : [path.slice(0, at), path.slice(at + 1)];
}

/** Everything but the unreserved characters of RFC 3986, as upper-case hexadecimal of its UTF-8. */
function encode(text: string): string {
  return encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The role to assume, and the keys to assume it with. */
interface AssumedRole {
  readonly keys: AwsKeys;
  readonly roleArn: string;
  readonly externalId: string | undefined;
  readonly region: string;
  /** Endpoint of STS: `https://sts.us-east-1.amazonaws.com`. */
  readonly endpoint: string;
}

/** The STS of a region; China has its own domain. */
export function stsEndpoint(region: string): string {
  return `https://sts.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`;
}

/** Keys of the role, for about an hour. Rejects with `credentials_failed` and the message of STS. */
async function assumeRole(role: AssumedRole, fetch: TokenFetch, clock: Clock): Promise<IssuedToken<AwsKeys>> {
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

/** The text of the only element of this name; undefined when it is absent, repeated or empty. */
function elementOf(xml: string, name: string): string | undefined {
  const parts = xml.split(`<${name}>`);
  const [text = '', rest] = (parts[1] ?? '').split(`</${name}>`);
  if (parts.length !== 2 || rest === undefined || text.trim() === '' || text.includes('<')) return undefined;
  return text
    .trim()
    .replaceAll(/&(lt|gt|quot|apos|amp);/g, (_, entity: keyof typeof entities) => entities[entity]);
}

const entities = { lt: '<', gt: '>', quot: '"', apos: "'", amp: '&' } as const;

/**
 * Credentials of AWS. `aws_auth_type` is `accessKey` (`aws_access_key_id`, `aws_secret_access_key`,
 * `aws_session_token`), `assumedRole` (`aws_role_arn`, `aws_external_id`) or `apiKey` (`api_key` as bearer token); when
 * it is missing, the other fields decide. Missing keys and `aws_region` come from the environment where that is
 * allowed. `aws_service` names a service other than `bedrock`.
 */
export function createAwsCredentials(fields: CredentialFields, context: CredentialContext): Credentials {
  const type = authType(fields);
  if (type === 'apiKey') {
    return staticBearer(
      credentialField.require(fields, 'api_key', 'aws_auth_type "apiKey" sends it as bearer token.'),
    );
  }
  const region = regionOf(fields, context);
  const service = credentialField.of(fields, 'aws_service') ?? 'bedrock';
  if (!/^[a-z0-9-]{1,64}$/.test(service)) {
    throw credentialField.problem('aws_service', 'is no name of a service, such as "bedrock" or "s3".');
  }
  const keys = keysOf(fields, context);
  if (type === 'accessKey') return signedBy(new SigV4Signer({ keys, region, service }), context);
  const role = roleOf({ fields, context, keys, region });
  const cache = new TokenCache<SigV4Signer>({
    clock: context.clock,
    async fetch() {
      const { value, lifetimeMs } = await assumeRole(role, context.fetch, context.clock);
      return { value: new SigV4Signer({ keys: value, region, service }), lifetimeMs };
    },
  });
  return {
    authorize(request) {
      const signer = cache.get();
      return signer instanceof SigV4Signer
        ? signer.sign(request, context.clock.now())
        : signer.then((one) => one.sign(request, context.clock.now()));
    },
  };
}

function signedBy(signer: SigV4Signer, { clock }: CredentialContext): Credentials {
  return { authorize: (request) => signer.sign(request, clock.now()) };
}

type AuthType = 'accessKey' | 'assumedRole' | 'apiKey';

function authType(fields: CredentialFields): AuthType {
  const named = credentialField.of(fields, 'aws_auth_type');
  if (named === 'accessKey' || named === 'assumedRole' || named === 'apiKey') return named;
  if (named !== undefined) {
    throw credentialField.problem('aws_auth_type', 'must be "accessKey", "assumedRole" or "apiKey".');
  }
  if (credentialField.of(fields, 'aws_role_arn') !== undefined) return 'assumedRole';
  const hasKey = credentialField.of(fields, 'aws_access_key_id') !== undefined;
  return !hasKey && credentialField.of(fields, 'api_key') !== undefined ? 'apiKey' : 'accessKey';
}

function regionOf(fields: CredentialFields, { environment, machineIdentity }: CredentialContext): string {
  const ambient = machineIdentity ? environment.AWS_REGION || environment.AWS_DEFAULT_REGION : undefined;
  const region = credentialField.of(fields, 'aws_region') ?? ambient;
  if (region === undefined)
    throw credentialField.problem('aws_region', 'is missing: name one, such as "us-east-1".');
  // The region becomes a part of a host name.
  if (!/^[a-z]{2,4}(-[a-z]+)+-\d{1,2}$/.test(region)) {
    throw credentialField.problem('aws_region', 'is no region of AWS, such as "us-east-1".');
  }
  return region;
}

function keysOf(fields: CredentialFields, context: CredentialContext): AwsKeys {
  const hasOwn = ['aws_access_key_id', 'aws_secret_access_key'].some(
    (name) => credentialField.of(fields, name) !== undefined,
  );
  if (hasOwn || !context.machineIdentity) {
    return {
      accessKeyId: credentialField.require(
        fields,
        'aws_access_key_id',
        'give it with aws_secret_access_key.',
      ),
      secretAccessKey: credentialField.require(
        fields,
        'aws_secret_access_key',
        'give it with aws_access_key_id.',
      ),
      sessionToken: credentialField.of(fields, 'aws_session_token'),
    };
  }
  const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN } = context.environment;
  if (!AWS_ACCESS_KEY_ID || !AWS_SECRET_ACCESS_KEY) {
    throw credentialField.problem(
      'aws_access_key_id',
      'is missing, and so is AWS_ACCESS_KEY_ID or AWS_SECRET_ACCESS_KEY in the environment: give one of the pairs.',
    );
  }
  return {
    accessKeyId: AWS_ACCESS_KEY_ID,
    secretAccessKey: AWS_SECRET_ACCESS_KEY,
    sessionToken: AWS_SESSION_TOKEN || undefined,
  };
}

interface RoleSource {
  readonly fields: CredentialFields;
  readonly context: CredentialContext;
  readonly keys: AwsKeys;
  readonly region: string;
}

function roleOf({ fields, context, keys, region }: RoleSource): AssumedRole {
  const roleArn = credentialField.require(
    fields,
    'aws_role_arn',
    'aws_auth_type "assumedRole" assumes that role.',
  );
  if (!/^arn:aws[a-z-]*:iam::\d{12}:role\/[\w+=,.@/-]{1,576}$/.test(roleArn)) {
    throw credentialField.problem(
      'aws_role_arn',
      'is no ARN of a role, such as "arn:aws:iam::123456789012:role/name".',
    );
  }
  const endpoint = credentialField.endpoint(context, 'AWS_ENDPOINT_URL_STS', stsEndpoint(region));
  return { keys, roleArn, externalId: credentialField.of(fields, 'aws_external_id'), region, endpoint };
}
