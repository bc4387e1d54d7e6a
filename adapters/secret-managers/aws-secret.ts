import type { SecretQuestion } from '../../core/ports/secret-managers.ts';
import { endpointOf } from '../credentials/credential-context.ts';
import { fieldOf, fieldProblem, type TokenStep } from '../credentials/credential-errors.ts';
import { asText, parseObject } from '../dialects/json-reading.ts';
import { requireMachine } from './machine-identity.ts';
import { askManager, refused, unhelpful, type ManagerAnswer } from './read-failure.ts';
import type { SecretSource, SourceContext } from './secret-source.ts';

const contentType = 'application/x-amz-json-1.1';
/** AWS says these with status 400. */
const busy = /Throttl|TooManyRequests|RequestLimitExceeded|InternalService|ServiceUnavailable/i;

/**
 * A secret of AWS Secrets Manager, by name or ARN (GetSecretValue, its present version). `AWS_ENDPOINT_URL_SECRETS_MANAGER`
 * names another endpoint.
 */
export function createAwsSource({ auth, secretPath }: SecretQuestion, context: SourceContext): SecretSource {
  const machineIdentity = !hasOwnKeys(auth);
  if (machineIdentity) requireMachine(context.rules.sources, 'aws_auth_type', 'the AWS keys of this machine');
  const { environment } = context;
  const ambient = machineIdentity ? environment.AWS_REGION || environment.AWS_DEFAULT_REGION : undefined;
  const region = fieldOf(auth, 'aws_region') ?? ambient;
  if (region === undefined) throw fieldProblem('aws_region', 'is missing: name one, such as "us-east-1".');
  const type = fieldOf(auth, 'aws_auth_type') === 'assumedRole' ? 'assumedRole' : 'accessKey';
  const credentials = context.credentials.create(
    'sigv4',
    { ...auth, aws_auth_type: type, aws_region: region, aws_service: 'secretsmanager' },
    { machineIdentity },
  );
  const standard = `https://secretsmanager.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`;
  const endpoint = endpointOf(context, 'AWS_ENDPOINT_URL_SECRETS_MANAGER', standard);
  const { origin, host } = new URL(endpoint);
  const body = JSON.stringify({ SecretId: secretPath });
  const step: TokenStep = {
    what: `The secret "${secretPath}" cannot be read from AWS Secrets Manager`,
    remedy: 'Check secret_path, auth_config and the policy of the secret',
    secrets: [auth['aws_secret_access_key'] ?? '', auth['aws_external_id'] ?? ''],
  };
  const plain = { 'content-type': contentType, 'x-amz-target': 'secretsmanager.GetSecretValue' };
  return {
    async read() {
      const signed = await credentials.authorize({
        ...{ method: 'POST', origin, path: '/', headers: Object.entries(plain).flat() },
        body: Buffer.from(body),
      });
      const headers: Record<string, string> = { ...plain };
      for (let at = 0; at < signed.length; at += 2) headers[signed[at] as string] = signed[at + 1] as string;
      const request = { url: `${origin}/`, method: 'POST', headers, body };
      return valueOf(await askManager(context.fetch, step, request), host, step);
    },
  };
}

function hasOwnKeys(auth: SecretQuestion['auth']): boolean {
  return fieldOf(auth, 'aws_access_key_id') !== undefined;
}

function valueOf({ status, body }: ManagerAnswer, host: string, step: TokenStep): string {
  const answer = parseObject(body);
  if (status !== 200) {
    const type = asText(answer?.['__type'])?.split('#').at(-1);
    const said = [type, answer?.['Message'] ?? answer?.['message']];
    throw unhelpful(step, host, { status, said, isBusy: type !== undefined && busy.test(type) });
  }
  const text = answer?.['SecretString'];
  if (typeof text === 'string') return text;
  const binary = answer?.['SecretBinary'];
  if (typeof binary === 'string') return Buffer.from(binary, 'base64').toString('utf8');
  throw refused(step, `${host} answered 200 without a secret`);
}
