import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { CredentialFields } from '../../core/ports/credentials.ts';
import { headerValue } from '../../core/ports/header-list.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { createAwsCredentials, stsEndpoint, SigV4Signer } from './aws-credentials.ts';
import { request, tokenServer, type Answer } from './token-server.test-support.ts';

const secret = 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY';
const own = { aws_access_key_id: 'AKIDEXAMPLE', aws_secret_access_key: secret, aws_region: 'us-east-1' };
const roleArn = 'arn:aws:iam::123456789012:role/team/weir';
const role = { ...own, aws_role_arn: roleArn, aws_external_id: 'external & secret' };

function make(fields: CredentialFields, environment: Record<string, string> = {}, machineIdentity = true) {
  return createAwsCredentials(fields, {
    clock: new ManualClock(),
    fetch: () => Promise.reject(new Error('no fetch')),
    environment,
    machineIdentity,
  });
}

function scopeOf(headers: string[] | Promise<string[]>): string | undefined {
  assert.ok(Array.isArray(headers));
  return /Credential=([^,]+),/.exec(headerValue(headers, 'authorization') ?? '')?.[1];
}

describe('which keys', () => {
  test('those of the fields, at once and without a token', () => {
    const headers = make({ ...own, aws_session_token: 'T' }).authorize(request);
    assert.equal(scopeOf(headers), 'AKIDEXAMPLE/20231114/us-east-1/bedrock/aws4_request');
    assert.equal(headerValue(headers as string[], 'x-amz-security-token'), 'T');
  });

  test('an API key is a bearer token, named or when it is all there is', () => {
    for (const fields of [
      { aws_auth_type: 'apiKey', api_key: 'k', ...own },
      { api_key: 'k' },
    ] as CredentialFields[]) {
      assert.deepEqual(make(fields).authorize(request), ['authorization', 'Bearer k']);
    }
  });

  test('those of the environment, for the operator only', () => {
    const environment = {
      AWS_ACCESS_KEY_ID: 'AKENV',
      AWS_SECRET_ACCESS_KEY: 's',
      AWS_SESSION_TOKEN: 'T',
      AWS_REGION: 'eu-west-1',
    };
    const headers = make({}, environment).authorize(request);
    assert.equal(scopeOf(headers), 'AKENV/20231114/eu-west-1/bedrock/aws4_request');
    assert.equal(headerValue(headers as string[], 'x-amz-security-token'), 'T');
    assert.throws(() => make({}, environment, false), { code: 'invalid_request', param: 'aws_region' });
    assert.throws(() => make({ aws_region: 'us-east-1' }, environment, false), {
      param: 'aws_access_key_id',
    });
    assert.throws(() => make({ aws_region: 'us-east-1', aws_role_arn: roleArn }, environment, false), {
      param: 'aws_access_key_id',
    });
  });

  test('another service', () => {
    const headers = make({ ...own, aws_service: 's3' }).authorize(request);
    assert.match(scopeOf(headers) ?? '', /\/s3\/aws4_request$/);
  });
});

describe('fields that are missing or wrong are named, and their values are not repeated', () => {
  const cases: readonly [string, CredentialFields][] = [
    ['aws_region', { ...own, aws_region: '' }],
    ['aws_region', { ...own, aws_region: 'evil.example/secretvalue' }],
    ['aws_region', { ...own, aws_region: 'us-east-1.evil.example#' }],
    ['aws_access_key_id', { aws_region: 'us-east-1', aws_secret_access_key: 'secretvalue' }],
    ['aws_secret_access_key', { aws_region: 'us-east-1', aws_access_key_id: 'secretvalue' }],
    ['aws_access_key_id', { aws_region: 'us-east-1' }],
    ['aws_auth_type', { ...own, aws_auth_type: 'secretvalue' }],
    ['api_key', { aws_auth_type: 'apiKey' }],
    ['aws_role_arn', { ...own, aws_auth_type: 'assumedRole' }],
    ['aws_role_arn', { ...own, aws_role_arn: 'secretvalue' }],
    ['aws_service', { ...own, aws_service: 'secretvalue/' }],
  ];
  for (const [param, fields] of cases) {
    test(`${param} of ${Object.keys(fields).join(', ')}`, () => {
      assert.throws(
        () => make(fields),
        (error: Error & { code: string; param: string }) => {
          assert.deepEqual([error.code, error.param], ['invalid_request', param]);
          assert.ok(error.message.includes(param));
          assert.ok(!error.message.includes('secretvalue'));
          return true;
        },
      );
    });
  }
});

test('the STS of a region', () => {
  assert.equal(stsEndpoint('eu-central-1'), 'https://sts.eu-central-1.amazonaws.com');
  assert.equal(stsEndpoint('cn-north-1'), 'https://sts.cn-north-1.amazonaws.com.cn');
});

const xml = (expiration: string, more = '', id = 'ASIAROLE'): string =>
  `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult>
    <AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/weir</Arn></AssumedRoleUser>
    <Credentials><AccessKeyId>${id}</AccessKeyId><SecretAccessKey>role/secret+1=</SecretAccessKey>
    <SessionToken>SESSION&amp;TOKEN</SessionToken><Expiration>${expiration}</Expiration>${more}</Credentials>
  </AssumeRoleResult></AssumeRoleResponse>`;
const refused = (message: string): string =>
  `<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>${message}</Message></Error></ErrorResponse>`;

describe('assuming a role', () => {
  async function start(t: TestContext, answer: Answer, fields: CredentialFields = role) {
    const clock = new ManualClock();
    const server = await tokenServer(t, clock, answer);
    const environment = { AWS_ENDPOINT_URL_STS: server.origin };
    const context = { clock, fetch: server.fetch, environment, machineIdentity: true };
    return { clock, ...server, credentials: createAwsCredentials(fields, context) };
  }
  const hourFrom = (clock: { now(): number }): string => new Date(clock.now() + 3_600_000).toISOString();

  test('asks STS once, signed; then signs with the keys of the role until they are renewed', async (t) => {
    const { clock, calls, origin, credentials } = await start(t, (_call, count) => ({
      body: xml(hourFrom(clock), '', `ASIAROLE${count}`),
    }));
    const both = await Promise.all([credentials.authorize(request), credentials.authorize(request)]);
    assert.deepEqual(both[0], both[1]);
    assert.equal(scopeOf(both[0]), 'ASIAROLE1/20231114/us-east-1/bedrock/aws4_request');
    assert.equal(headerValue(both[0], 'x-amz-security-token'), 'SESSION&TOKEN');
    const keys = {
      accessKeyId: 'ASIAROLE1',
      secretAccessKey: 'role/secret+1=',
      sessionToken: 'SESSION&TOKEN',
    };
    const signer = new SigV4Signer({ keys, region: 'us-east-1', service: 'bedrock' });
    assert.deepEqual(credentials.authorize(request), signer.sign(request, clock.now()));

    assert.equal(calls.length, 1);
    const { method, url, headers, body } = calls[0]!;
    assert.deepEqual([method, url], ['POST', '/']);
    assert.deepEqual(Object.fromEntries(new URLSearchParams(body)), {
      Action: 'AssumeRole',
      Version: '2011-06-15',
      RoleArn: roleArn,
      RoleSessionName: 'weir',
      ExternalId: 'external & secret',
    });
    const contentType = 'application/x-www-form-urlencoded; charset=utf-8';
    const source = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: secret };
    const expected = new SigV4Signer({ keys: source, region: 'us-east-1', service: 'sts' }).sign(
      { method, origin, path: '/', headers: ['content-type', contentType], body: Buffer.from(body) },
      clock.now(),
    );
    assert.deepEqual(
      [headers['content-type'], headers.authorization, headers['x-amz-date']],
      [contentType, headerValue(expected, 'authorization'), headerValue(expected, 'x-amz-date')],
    );

    clock.advance(3_600_000 - 60_000);
    const renewed = await credentials.authorize(request);
    assert.match(scopeOf(renewed) ?? '', /^ASIAROLE2\//);
    assert.equal(calls.length, 2);
  });

  const failures: readonly [string, ReturnType<Answer>, RegExp][] = [
    [
      'a refusal',
      { status: 403, body: refused('User &lt;me&gt; is not authorized') },
      /STS answered 403 AccessDenied: User <me> is not authorized\. Check aws_role_arn/,
    ],
    ['a page', { status: 502, body: '<html>Bad Gateway</html>' }, /STS answered 502\./],
    ['an answer without credentials', { body: '<AssumeRoleResponse/>' }, /without a single AccessKeyId/],
    [
      'two credentials',
      { body: xml('2030-01-01T00:00:00Z', '<AccessKeyId>x</AccessKeyId>') },
      /without a single AccessKeyId/,
    ],
    ['an end that is none', { body: xml('soon') }, /Expiration that is no time/],
  ];
  for (const [name, answer, message] of failures) {
    test(`${name} is credentials_failed and says why`, async (t) => {
      const { credentials } = await start(t, () => answer);
      await assert.rejects(async () => credentials.authorize(request), {
        code: 'credentials_failed',
        message,
      });
    });
  }

  test('no secret comes back in an error, in whatever encoding', async (t) => {
    const session = 'session/token+long=';
    const { credentials } = await start(
      t,
      ({ body }) => ({
        status: 400,
        body: refused(`${secret} ${session} external & secret ${body}`.replaceAll('&', '&amp;')),
      }),
      { ...role, aws_session_token: session },
    );
    await assert.rejects(
      async () => credentials.authorize(request),
      (error: Error) => {
        for (const one of [secret, session, 'external & secret', 'external+%26+secret']) {
          assert.ok(!error.message.includes(one), one);
        }
        assert.match(error.message, /\[secret\]/);
        return true;
      },
    );
  });

  test('nobody there', async (t) => {
    const { credentials, transport } = await start(t, () => ({ body: '' }));
    await transport.close();
    await assert.rejects(async () => credentials.authorize(request), {
      code: 'credentials_failed',
      message: /^The AWS role cannot be assumed: /,
    });
  });

  test('an endpoint of the environment that is neither https nor loopback is refused', () => {
    for (const AWS_ENDPOINT_URL_STS of ['http://sts.example', 'sts', 'ftp://127.0.0.1']) {
      assert.throws(() => make(role, { AWS_ENDPOINT_URL_STS }), { param: 'AWS_ENDPOINT_URL_STS' });
    }
  });
});
