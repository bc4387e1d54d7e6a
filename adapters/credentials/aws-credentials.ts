import type { CredentialFields, Credentials } from '../../core/ports/credentials.ts';
import { assumeRole, stsEndpoint, type AssumedRole } from './assume-role.ts';
import { staticBearer } from './bearer.ts';
import { endpointOf, type CredentialContext } from './credential-context.ts';
import { fieldOf, fieldProblem, requireField } from './credential-errors.ts';
import { SigV4Signer, type AwsKeys } from './sigv4.ts';
import { TokenCache } from './token-cache.ts';

/**
 * Credentials of AWS. `aws_auth_type` is `accessKey` (`aws_access_key_id`, `aws_secret_access_key`,
 * `aws_session_token`), `assumedRole` (`aws_role_arn`, `aws_external_id`) or `apiKey` (`api_key` as bearer token); when
 * it is missing, the other fields tell. Keys that are missing come from the environment where that is allowed, and
 * so does `aws_region`. `aws_service` names another service than `bedrock`.
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
  // It becomes a part of a host name.
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
