import assert from 'node:assert/strict';
import { mkdtemp, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, test } from 'node:test';
import { headerValue } from '../../core/ports/header-list.ts';
import { settle } from '../../tests/conformance/manual-clock.ts';
import { testSecrets as box } from '../../tests/kit/test-secrets.ts';
import { SigV4Signer } from '../credentials/aws-credentials.ts';
import {
  aReference,
  startManagers,
  type ManagerAnswer,
  type ManagerCall,
} from './manager-stand-in.test-support.ts';

const awsSecret = 'planted/aws+secret=key';
const aws = aReference(
  {
    managerType: 'aws_sm',
    secretPath: 'team/openai',
    secretKey: 'api_key',
    authConfig: { aws_auth_type: 'accessKey', aws_access_key_id: 'AKID', aws_region: 'eu-west-1' },
  },
  { aws_secret_access_key: awsSecret },
);

/** AWS as it is: who signs wrongly gets nothing. */
function awsAnswer(origin: () => string, now: () => number, secrets: Record<string, string>) {
  return ({ method, url, headers, body }: ManagerCall): ManagerAnswer => {
    const signed = [
      ...['content-type', headers['content-type'] ?? ''],
      ...['x-amz-target', String(headers['x-amz-target'])],
    ];
    const keys = { accessKeyId: 'AKID', secretAccessKey: awsSecret };
    const expected = new SigV4Signer({ keys, region: 'eu-west-1', service: 'secretsmanager' }).sign(
      { method, origin: origin(), path: url, headers: signed, body: Buffer.from(body) },
      now(),
    );
    if (headers.authorization !== headerValue(expected, 'authorization'))
      return {
        status: 400,
        body: { __type: 'InvalidSignatureException', message: 'The signature differs.' },
      };
    if (headers['x-amz-target'] !== 'secretsmanager.GetSecretValue') return { status: 400, body: {} };
    const text = secrets[(JSON.parse(body) as { SecretId: string }).SecretId];
    return text === undefined
      ? {
          status: 400,
          body: { __type: 'ResourceNotFoundException', Message: "Secrets Manager can't find it." },
        }
      : { body: { Name: 'n', SecretString: text } };
  };
}

const vaultToken = 'hvs.planted-token';
const vaultOf = (origin: string, more: object = {}, secretPath = 'secret/team/openai') =>
  aReference(
    {
      managerType: 'hashicorp_vault',
      secretPath,
      secretKey: 'api_key',
      authConfig: { vault_auth_type: 'token', vault_addr: origin, ...more },
    },
    { vault_token: vaultToken },
  );

/** HashiCorp Vault with one secret, in an engine of this version. */
function vaultAnswer(version: 1 | 2, token = vaultToken, value = 'sk-1') {
  return ({ url, headers }: ManagerCall): ManagerAnswer => {
    if (headers['x-vault-token'] !== token) return { status: 403, body: { errors: ['permission denied'] } };
    const data = { api_key: value, port: 8080 };
    if (version === 1)
      return url === '/v1/secret/team/openai' ? { body: { data } } : { status: 404, body: { errors: [] } };
    if (url === '/v1/secret/data/team/openai') return { body: { data: { data, metadata: { version: 3 } } } };
    const warnings = ['Invalid path for a versioned K/V secrets engine.'];
    return { status: 404, body: { errors: [], warnings } };
  };
}

describe('AWS Secrets Manager', () => {
  test('is asked with a signature; the member of the JSON is the value', async (t) => {
    const secrets = { 'team/openai': '{"api_key":"sk-aws","n":{"a":1}}' };
    const setting = await startManagers(t, {
      answer: (call) =>
        awsAnswer(
          () => setting.origin,
          () => setting.clock.now(),
          secrets,
        )(call),
    });
    assert.equal(await setting.managers.value(aws, box), 'sk-aws');
    assert.equal(setting.managers.value(aws, box, 'n'), '{"a":1}', 'held: no promise');
    assert.throws(() => setting.managers.value(aws, box, 'none'), {
      code: 'credentials_failed',
      message: /has no such member, and "none"/,
    });
    assert.equal(setting.calls.length, 1);
  });

  const refusals: readonly [string, ManagerAnswer, RegExp][] = [
    [
      'an unknown secret',
      { status: 400, body: { __type: 'a#ResourceNotFoundException', Message: 'no such' } },
      /answered 400 ResourceNotFoundException: no such\. Check secret_path/,
    ],
    [
      'a refusal that repeats the key',
      { status: 400, body: { message: `bad ${awsSecret}` } },
      /bad \[secret\]/,
    ],
    ['no JSON', { body: '<html>' }, /answered 200 without a secret/],
    ['a broken manager', { status: 500, body: '' }, /answered 500\./],
    ['a secret that is too large', { body: { SecretString: 'x'.repeat(65_537) } }, /larger than 65536 bytes/],
  ];
  for (const [name, answer, message] of refusals) {
    test(`${name} is credentials_failed and says why`, async (t) => {
      const { managers, lines } = await startManagers(t, { answer: () => answer });
      await assert.rejects(
        async () => managers.value(aws, box),
        (error: Error & { code: string }) => {
          assert.equal(error.code, 'credentials_failed');
          assert.match(error.message, message);
          assert.ok(!JSON.stringify([error.message, lines]).includes(awsSecret));
          return true;
        },
      );
    });
  }

  test('binary secrets are text as well, and a secret that is no JSON has no members', async (t) => {
    const SecretBinary = Buffer.from('plain').toString('base64');
    const { managers } = await startManagers(t, { answer: () => ({ body: { SecretBinary } }) });
    await assert.rejects(async () => managers.value(aws, box), { message: /is no JSON object/ });
    assert.equal(managers.value({ ...aws, data: { ...aws.data, secretKey: '' } }, box), 'plain');
  });
});

describe('Azure Key Vault', () => {
  const azureOf = (origin: string, secretPath = 'openai') =>
    aReference(
      {
        managerType: 'azure_kv',
        secretPath,
        authConfig: {
          azure_auth_mode: 'entra',
          azure_entra_tenant_id: 'tenant',
          azure_entra_client_id: 'client',
          azure_vault_url: `${origin}/`,
        },
      },
      { azure_entra_client_secret: 'planted-client-secret' },
    );
  const answer = ({ url, headers, body }: ManagerCall): ManagerAnswer => {
    if (url === '/tenant/oauth2/v2.0/token') {
      const form = new URLSearchParams(body);
      const isRight =
        form.get('client_secret') === 'planted-client-secret' &&
        form.get('scope') === 'https://vault.azure.net/.default';
      return isRight
        ? { body: { access_token: 'entra-token', expires_in: 3600 } }
        : { status: 401, body: { error: 'invalid_client' } };
    }
    if (headers.authorization !== 'Bearer entra-token') return { status: 401, body: {} };
    if (url === '/secrets/openai?api-version=7.4') return { body: { value: 'sk-azure', id: 'x' } };
    return { status: 404, body: { error: { code: 'SecretNotFound', message: 'it is not there' } } };
  };

  test('is asked with a token of Entra for vaults', async (t) => {
    const { managers, origin, calls } = await startManagers(t, { answer });
    assert.equal(await managers.value(azureOf(origin), box), 'sk-azure');
    assert.equal(calls.length, 2);
    await assert.rejects(async () => managers.value({ ...azureOf(origin, 'other'), version: 2 }, box), {
      code: 'credentials_failed',
      message: /answered 404 SecretNotFound: it is not there/,
    });
  });

  test('gets no token when it is no vault', async (t) => {
    const { managers, origin, calls } = await startManagers(t, { answer, isTrusted: false });
    for (const url of [
      origin,
      'https://vault.azure.net.evil.example',
      'https://evil.example/vault.azure.net',
    ])
      await assert.rejects(async () => managers.value(azureOf(url), box), { message: /azure_vault_url/ });
    assert.equal(calls.length, 0);
  });
});

describe('HashiCorp Vault', () => {
  for (const version of [1, 2] as const) {
    test(`gives a member of a secret, engine KV version ${version}`, async (t) => {
      const { managers, origin, calls } = await startManagers(t, { answer: vaultAnswer(version) });
      assert.equal(await managers.value(vaultOf(origin, { vault_namespace: 'team' }), box), 'sk-1');
      assert.equal(managers.value(vaultOf(origin), box, 'port'), '8080');
      assert.equal(calls.at(-1)?.headers['x-vault-namespace'], 'team');
    });
  }

  test('takes a path with data/ and the whole secret as JSON', async (t) => {
    const { managers, origin, calls } = await startManagers(t, { answer: vaultAnswer(2) });
    const reference = vaultOf(origin, {}, '/secret/data/team/openai');
    const whole = { ...reference, data: { ...reference.data, secretKey: '' } };
    assert.equal(await managers.value(whole, box), '{"api_key":"sk-1","port":8080}');
    assert.equal(calls.length, 1);
  });

  test('is logged in to with an approle, once, and again when the token was taken back', async (t) => {
    let issued = 0;
    let valid = '';
    const { managers, origin, calls, clock } = await startManagers(t, {
      answer(call) {
        if (call.url !== '/v1/auth/approle/login') return vaultAnswer(1, valid, `sk-${issued}`)(call);
        assert.deepEqual(JSON.parse(call.body), { role_id: 'role', secret_id: 'planted-secret-id' });
        valid = `token-${++issued}`;
        return { body: { auth: { client_token: valid, lease_duration: 3600 } } };
      },
    });
    const auth = { vault_auth_type: 'approle', vault_addr: origin, vault_role_id: 'role' };
    const reference = aReference(
      {
        managerType: 'hashicorp_vault',
        secretPath: 'secret/team/openai',
        secretKey: 'api_key',
        authConfig: auth,
      },
      { vault_secret_id: 'planted-secret-id' },
    );
    assert.equal(await managers.value(reference, box), 'sk-1');
    clock.advance(300_000);
    assert.equal(await managers.value(reference, box), 'sk-1');
    assert.equal(issued, 1, 'the token still serves');
    valid = 'taken back';
    clock.advance(300_000);
    assert.equal(await managers.value(reference, box), 'sk-2');
    assert.equal(calls.length, 6);
  });

  test('is not asked at a private address that the operator does not trust', async (t) => {
    const { managers, origin, calls } = await startManagers(t, { answer: vaultAnswer(1), isTrusted: false });
    for (const address of [origin, origin.replace('http:', 'https:')])
      await assert.rejects(async () => managers.value(vaultOf(address), box), { code: 'credentials_failed' });
    assert.equal(calls.length, 0);
  });

  test('refuses without repeating the token', async (t) => {
    const answer = () => ({ status: 403, body: { errors: [`denied for ${vaultToken}`] } });
    const { managers, origin } = await startManagers(t, { answer });
    await assert.rejects(async () => managers.value(vaultOf(origin), box), {
      message: /answered 403 denied for \[secret\]\. Check secret_path/,
    });
  });
});

describe('what was read', () => {
  test('is used for 4 minutes, renewed behind requests, and waited for after 5', async (t) => {
    let value = 'sk-1';
    const setting = await startManagers(t, { answer: (call) => vaultAnswer(1, vaultToken, value)(call) });
    const { managers, origin, calls, clock } = setting;
    const reference = vaultOf(origin);
    const many = await Promise.all(Array.from({ length: 20 }, async () => managers.value(reference, box)));
    assert.deepEqual([new Set(many), calls.length], [new Set(['sk-1']), 1]);
    value = 'sk-2';
    clock.advance(239_999);
    assert.equal(managers.value(reference, box), 'sk-1');
    assert.equal(calls.length, 1);
    clock.advance(1);
    const renewal = setting.nextCall();
    assert.equal(managers.value(reference, box), 'sk-1', 'nobody waits');
    await renewal;
    while (managers.value(reference, box) === 'sk-1') await settle();
    assert.deepEqual([managers.value(reference, box), calls.length], ['sk-2', 2]);
    value = 'sk-3';
    clock.advance(300_000);
    assert.equal(await managers.value(reference, box), 'sk-3');
  });

  const away: readonly [string, ManagerAnswer][] = [
    ['throttles', { status: 429, body: { errors: ['slow down'] } }],
    ['is sealed', { status: 503, body: { errors: ['Vault is sealed'] } }],
  ];
  for (const [name, answer] of away) {
    test(`stays in use when the manager ${name}, with one warning, for up to a day`, async (t) => {
      let isAway = false;
      const { managers, origin, calls, clock, lines } = await startManagers(t, {
        answer: (call) => (isAway ? answer : vaultAnswer(1)(call)),
      });
      const reference = vaultOf(origin);
      await managers.value(reference, box);
      isAway = true;
      clock.advance(300_000);
      assert.equal(await managers.value(reference, box), 'sk-1');
      assert.equal(managers.value(reference, box), 'sk-1', 'and not asked again at once');
      assert.equal(calls.length, 2);
      assert.deepEqual(
        lines.map(({ level, fields }) => [level, fields['secret_reference']]),
        [['warn', 'openai-key']],
      );
      clock.advance(86_400_000);
      await assert.rejects(async () => managers.value(reference, box), { code: 'credentials_failed' });
      isAway = false;
      clock.advance(1_000);
      assert.equal(await managers.value(reference, box), 'sk-1');
    });
  }

  test('stays in use when the manager hangs: after 10 seconds, and then nobody waits for it', async (t) => {
    let hangs = false;
    const setting = await startManagers(t, { answer: (call) => (hangs ? undefined : vaultAnswer(1)(call)) });
    const { managers, origin, clock } = setting;
    const reference = vaultOf(origin);
    await managers.value(reference, box);
    hangs = true;
    clock.advance(300_000);
    const came = setting.nextCall();
    const waiting = managers.value(reference, box);
    await came;
    clock.advance(10_000);
    assert.equal(await waiting, 'sk-1');
    clock.advance(60_000);
    assert.equal(managers.value(reference, box), 'sk-1');
  });

  test('ends at once when the manager refuses it, and when the reference changes', async (t) => {
    let token = vaultToken;
    const { managers, origin, clock, calls } = await startManagers(t, {
      answer: (call) => vaultAnswer(1, token)(call),
    });
    const reference = vaultOf(origin);
    await managers.value(reference, box);
    assert.equal(await managers.value({ ...reference, version: 2 }, box), 'sk-1');
    assert.equal(calls.length, 2);
    token = 'another';
    clock.advance(300_000);
    const changed = { ...reference, version: 2 };
    await assert.rejects(async () => managers.value(changed, box), { message: /answered 403/ });
    await assert.rejects(async () => managers.value(changed, box), { message: /answered 403/ });
    assert.equal(calls.length, 3, 'a failure is not repeated within a second');
  });

  test('outlives a configuration', async (t) => {
    const { managers, origin, within, calls } = await startManagers(t, { answer: vaultAnswer(1) });
    const reference = vaultOf(origin);
    await managers.value(reference, box);
    assert.equal(within().value(reference, box), 'sk-1');
    assert.equal(calls.length, 1);
  });
});

describe('of the machine', () => {
  test('variables: those with the prefix, and never the own ones', async (t) => {
    const environment = { SECRET_A: 'value', OTHER: 'no', WEIR_SECRET_KEY: 'no' };
    const { within } = await startManagers(t, { environment });
    const named = (secretPath: string) => aReference({ managerType: 'environment', secretPath });
    const managers = within({ environment_prefix: 'SECRET_' });
    assert.equal(await managers.value(named('SECRET_A'), box), 'value');
    await assert.rejects(
      async () => managers.value({ ...named('SECRET_B'), version: 2 }, box),
      /it is not set/,
    );
    for (const [prefix, name] of [
      ['SECRET_', 'OTHER'],
      ['W', 'WEIR_SECRET_KEY'],
      ['WEIR_', 'WEIR_SECRET_KEY'],
      ['', 'SECRET_A'],
    ] as const) {
      const allowed = within({ environment_prefix: prefix });
      await assert.rejects(async () => allowed.value(named(name), box), { code: 'credentials_failed' });
      const question = { managerType: 'environment' as const, auth: {}, secretPath: name };
      assert.equal(allowed.refusal(question)?.path, prefix === '' ? '/manager_type' : '/secret_path');
    }
  });

  test('files: those below the folder, links within it included', async (t) => {
    const root = await mkdtemp(path.join(tmpdir(), 'weir-files-'));
    t.after(() => rm(root, { recursive: true }));
    const folder = path.join(root, 'secrets');
    await mkdir(path.join(folder, '..data', 'team'), { recursive: true });
    await writeFile(path.join(folder, '..data', 'team', 'openai'), 'sk-file\n');
    await symlink(path.join('..data', 'team'), path.join(folder, 'team'));
    await writeFile(path.join(root, 'outside'), 'no');
    await symlink(path.join(root, 'outside'), path.join(folder, 'link'));
    await writeFile(path.join(folder, 'large'), 'x'.repeat(65_537));
    const { within } = await startManagers(t);
    const managers = within({ folder });
    let version = 0;
    const read = async (secretPath: string, from = managers) =>
      from.value(aReference({ managerType: 'file', secretPath }, {}, ++version), box);
    assert.equal(await read('team/openai'), 'sk-file');
    const wrong: readonly [string, RegExp][] = [
      ['link', /outside of the folder/],
      ['large', /larger than 65536/],
      ['team', /no file|EISDIR/],
      ['nowhere', /ENOENT/],
      ...['../outside', '/etc/passwd', 'team/../../outside', 'a\\b', ''].map((one): [string, RegExp] => [
        one,
        /must be the path of a file below/,
      ]),
    ];
    for (const [name, message] of wrong) await assert.rejects(read(name), { message }, name);
    await assert.rejects(read('team/openai', within()), { message: /lets no file be read/ });
  });

  test('its identity is used only where the operator allows it', async (t) => {
    const environment = {
      AWS_ACCESS_KEY_ID: 'AKID',
      AWS_SECRET_ACCESS_KEY: awsSecret,
      AWS_REGION: 'eu-west-1',
    };
    const secrets = { 'team/openai': '{"api_key":"sk-role"}' };
    const setting = await startManagers(t, {
      environment,
      answer: (call) =>
        awsAnswer(
          () => setting.origin,
          () => setting.clock.now(),
          secrets,
        )(call),
    });
    const authConfig = { aws_auth_type: 'serviceRole' };
    const reference = aReference({ ...aws.data, authConfig });
    await assert.rejects(async () => setting.managers.value(reference, box), { message: /machine_identity/ });
    assert.equal(setting.calls.length, 0);
    assert.equal(await setting.within({ machine_identity: true }).value(reference, box), 'sk-role');
    for (const [managerType, auth] of [
      ['azure_kv', { azure_auth_mode: 'managed', azure_vault_url: 'https://a.vault.azure.net' }],
      ['azure_kv', { azure_auth_mode: 'default', azure_vault_url: 'https://a.vault.azure.net' }],
      ['aws_sm', { aws_auth_type: 'assumedRole', aws_role_arn: 'arn:aws:iam::123456789012:role/r' }],
      [
        'hashicorp_vault',
        { vault_auth_type: 'kubernetes', vault_addr: 'https://a.example.com', vault_role: 'r' },
      ],
    ] as const) {
      const refusal = setting.managers.refusal({ managerType, auth, secretPath: 'openai' });
      assert.match(refusal?.message ?? '', /machine_identity/, managerType);
    }
  });
});
