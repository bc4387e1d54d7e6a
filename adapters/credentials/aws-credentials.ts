import type { CredentialFields, Credentials } from '../../core/ports/credentials.ts';
import { type IssuedToken, staticBearer, TokenCache } from './token-cache.ts';
import {
  type CredentialContext,
  credentialsFailed,
  endpointOf,
  fetchForStep,
  fieldOf,
  fieldProblem,
  requireField,
  type TokenFetch,
  type TokenStep,
} from './credential-context.ts';
import { type AwsKeys, SigV4Signer } from './sigv4.ts';
import type { Clock } from '../../core/ports/clock.ts';

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
    return staticBearer(requireField(fields, 'api_key', 'aws_auth_type "apiKey" sends it as bearer token.'));
  }
  const region = regionOf(fields, context);
  const service = fieldOf(fields, 'aws_service') ?? 'bedrock';
  if (!/^[a-z0-9-]{1,64}$/.test(service)) {
    throw fieldProblem('aws_service', 'is no name of a service, such as "bedrock" or "s3".');
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
  const named = fieldOf(fields, 'aws_auth_type');
  if (named === 'accessKey' || named === 'assumedRole' || named === 'apiKey') return named;
  if (named !== undefined) {
    throw fieldProblem('aws_auth_type', 'must be "accessKey", "assumedRole" or "apiKey".');
  }
  if (fieldOf(fields, 'aws_role_arn') !== undefined) return 'assumedRole';
  const hasKey = fieldOf(fields, 'aws_access_key_id') !== undefined;
  return !hasKey && fieldOf(fields, 'api_key') !== undefined ? 'apiKey' : 'accessKey';
}

function regionOf(fields: CredentialFields, { environment, machineIdentity }: CredentialContext): string {
  const ambient = machineIdentity ? environment.AWS_REGION || environment.AWS_DEFAULT_REGION : undefined;
  const region = fieldOf(fields, 'aws_region') ?? ambient;
  if (region === undefined) throw fieldProblem('aws_region', 'is missing: name one, such as "us-east-1".');
  // The region becomes a part of a host name.
  if (!/^[a-z]{2,4}(-[a-z]+)+-\d{1,2}$/.test(region)) {
    throw fieldProblem('aws_region', 'is no region of AWS, such as "us-east-1".');
  }
  return region;
}

function keysOf(fields: CredentialFields, context: CredentialContext): AwsKeys {
  const hasOwn = ['aws_access_key_id', 'aws_secret_access_key'].some(
    (name) => fieldOf(fields, name) !== undefined,
  );
  if (hasOwn || !context.machineIdentity) {
    return {
      accessKeyId: requireField(fields, 'aws_access_key_id', 'give it with aws_secret_access_key.'),
      secretAccessKey: requireField(fields, 'aws_secret_access_key', 'give it with aws_access_key_id.'),
      sessionToken: fieldOf(fields, 'aws_session_token'),
    };
  }
  const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN } = context.environment;
  if (!AWS_ACCESS_KEY_ID || !AWS_SECRET_ACCESS_KEY) {
    throw fieldProblem(
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
  const roleArn = requireField(fields, 'aws_role_arn', 'aws_auth_type "assumedRole" assumes that role.');
  if (!/^arn:aws[a-z-]*:iam::\d{12}:role\/[\w+=,.@/-]{1,576}$/.test(roleArn)) {
    throw fieldProblem('aws_role_arn', 'is no ARN of a role, such as "arn:aws:iam::123456789012:role/name".');
  }
  const endpoint = endpointOf(context, 'AWS_ENDPOINT_URL_STS', stsEndpoint(region));
  return { keys, roleArn, externalId: fieldOf(fields, 'aws_external_id'), region, endpoint };
}
