import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { SignableRequest } from '../../core/ports/credentials.ts';
import { headerValue } from '../../core/ports/header-list.ts';
import { SigV4Signer } from './aws-credentials.ts';

const keys = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' };
const nowMs = Date.UTC(2015, 7, 30, 12, 36, 0);

function signatureOf(headers: readonly string[]): { signed: string; signature: string } {
  const match = /^AWS4-HMAC-SHA256 Credential=\S+, SignedHeaders=(\S+), Signature=([0-9a-f]{64})$/.exec(
    headerValue(headers, 'authorization') ?? '',
  );
  return { signed: match?.[1] ?? '', signature: match?.[2] ?? '' };
}

const unreserved = '-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const vanilla = '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31';
const postVanilla = '5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b';
const postQuery = '28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11';
const form = 'application/x-www-form-urlencoded';

/** The test suite that AWS publishes for Signature Version 4: name, request, signature. */
const suite: readonly [
  string,
  { method?: string; path?: string; headers?: string[]; body?: string },
  string,
][] = [
  ['get-vanilla', {}, vanilla],
  ['get-vanilla-query', {}, vanilla],
  [
    'get-vanilla-empty-query-key',
    { path: '/?Param1=value1' },
    'a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb',
  ],
  [
    'get-vanilla-query-order-key-case',
    { path: '/?Param2=value2&Param1=value1' },
    'b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500',
  ],
  [
    'get-vanilla-query-unreserved',
    { path: `/?${unreserved}=${unreserved}` },
    '9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197',
  ],
  [
    'get-vanilla-utf8-query',
    { path: '/?ሴ=bar' },
    '2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04',
  ],
  [
    'get-vanilla-utf8-query, encoded',
    { path: '/?%E1%88%B4=bar' },
    '2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04',
  ],
  [
    'get-unreserved',
    { path: `/${unreserved}` },
    '07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f',
  ],
  ['get-utf8', { path: '/ሴ' }, '8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85'],
  [
    'get-header-key-duplicate',
    { headers: ['My-Header1', 'value2', 'My-Header1', 'value2', 'My-Header1', 'value1'] },
    'c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea',
  ],
  [
    'get-header-value-order',
    {
      headers: [
        'My-Header1',
        'value4',
        'My-Header1',
        'value1',
        'My-Header1',
        'value3',
        'My-Header1',
        'value2',
      ],
    },
    '08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01',
  ],
  [
    'get-header-value-trim',
    { headers: ['My-Header1', ' value1', 'My-Header2', ' "a   b   c"'] },
    'acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736',
  ],
  ['normalize-path/get-relative', { path: '/example/..' }, vanilla],
  ['normalize-path/get-relative-relative', { path: '/example1/example2/../..' }, vanilla],
  ['normalize-path/get-slash', { path: '//' }, vanilla],
  ['normalize-path/get-slash-dot-slash', { path: '/./' }, vanilla],
  [
    'normalize-path/get-slash-pointless-dot',
    { path: '/./example' },
    'ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5',
  ],
  [
    'normalize-path/get-slashes',
    { path: '//example//' },
    '9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84',
  ],
  [
    'normalize-path/get-space',
    { path: '/example space/' },
    '652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741',
  ],
  ['post-vanilla', { method: 'POST' }, postVanilla],
  ['post-header-key-case', { method: 'post' }, postVanilla],
  [
    'post-header-key-sort',
    { method: 'POST', headers: ['My-Header1', 'value1'] },
    'c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c',
  ],
  [
    'post-header-value-case',
    { method: 'POST', headers: ['My-Header1', 'VALUE1'] },
    'cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d',
  ],
  ['post-vanilla-query', { method: 'POST', path: '/?Param1=value1' }, postQuery],
  ['post-vanilla-empty-query-value', { method: 'POST', path: '/?Param1=value1&' }, postQuery],
  [
    'post-x-www-form-urlencoded',
    { method: 'POST', headers: ['Content-Type', form], body: 'Param1=value1' },
    'ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a',
  ],
  [
    'post-x-www-form-urlencoded-parameters',
    { method: 'POST', headers: ['Content-Type', `${form}; charset=utf8`], body: 'Param1=value1' },
    '1a72ec8f64bd914b0e42e42607c7fbce7fb2c7465f63e3092b3b0d39fa77a6fe',
  ],
];

describe('the test suite of AWS', () => {
  for (const [name, { method = 'GET', path = '/', headers = [], body }, expected] of suite) {
    test(name, () => {
      const signer = new SigV4Signer({ keys, region: 'us-east-1', service: 'service', covers: () => true });
      const request: SignableRequest = {
        method,
        path,
        headers,
        origin: 'https://example.amazonaws.com',
        body: body === undefined ? null : Buffer.from(body),
      };
      assert.equal(signatureOf(signer.sign(request, nowMs)).signature, expected);
    });
  }
});

describe('Bedrock and S3', () => {
  const arn = 'arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-v1:0';
  const converse: SignableRequest = {
    method: 'POST',
    origin: 'https://bedrock-runtime.us-east-1.amazonaws.com',
    path: `/model/${encodeURIComponent(arn)}/converse-stream`,
    headers: ['Content-Type', 'application/json'],
    body: Buffer.from('{"a":1}'),
  };

  test('the segments of a path that is encoded already are encoded again; a session token is signed', () => {
    const session = { ...keys, sessionToken: 'SESSION' };
    const signer = new SigV4Signer({ keys: session, region: 'us-east-1', service: 'bedrock' });
    assert.deepEqual(signer.sign(converse, nowMs), [
      ...['x-amz-date', '20150830T123600Z', 'x-amz-security-token', 'SESSION', 'authorization'],
      'AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/bedrock/aws4_request, ' +
        'SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, ' +
        'Signature=7dcb056ed25c98d68182e967ca90eb305d23b8e7f67e01f20ee32480b0ed311f',
    ]);
  });

  test('a colon that is sent as it is, and a query with equal names', () => {
    const signer = new SigV4Signer({ keys, region: 'us-east-1', service: 'bedrock' });
    const path = '/model/amazon.nova-lite-v1:0/converse?b=2&a=%20x&a=%2B';
    assert.deepEqual(signatureOf(signer.sign({ ...converse, path, body: Buffer.from('{}') }, nowMs)), {
      signed: 'content-type;host;x-amz-date',
      signature: 'ffd99b673a9161e8fb4248a40f6167c999021fc605cddac83365f4acec0b145d',
    });
  });

  test('S3: encoded once, nothing removed from the path, the hash of the body as a header', () => {
    const signer = new SigV4Signer({ keys, region: 'us-east-1', service: 's3' });
    const headers = signer.sign(
      {
        method: 'PUT',
        origin: 'https://bucket.s3.us-east-1.amazonaws.com',
        path: '/dir%20a/b%3Ac//d.txt?list-type=2',
        headers: [],
        body: Buffer.from('hi'),
      },
      nowMs,
    );
    assert.equal(
      headerValue(headers, 'x-amz-content-sha256'),
      '8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4',
    );
    assert.deepEqual(signatureOf(headers), {
      signed: 'host;x-amz-content-sha256;x-amz-date',
      signature: 'd261c808137cde8d04576d7141076e1ad38f28dd1a699065d72e746831a87f93',
    });
  });

  test('headers that may change on the way, or that are set anew, do not matter', () => {
    const signer = new SigV4Signer({ keys, region: 'us-east-1', service: 'bedrock' });
    const plain = signer.sign(converse, nowMs);
    const noise = ['user-agent', 'x', 'Accept', '*/*', 'authorization', 'old', 'X-Amz-Date', 'old'];
    const withNoise = { ...converse, headers: [...noise, ...converse.headers] };
    assert.deepEqual(signer.sign(withNoise, nowMs), plain);
    assert.notDeepEqual(
      signer.sign({ ...converse, headers: [...converse.headers, 'x-amz-a', 'b'] }, nowMs),
      plain,
    );
  });

  test('the host is the one of the origin, with a port that is not the usual one, unless it is named', () => {
    const signer = new SigV4Signer({ keys, region: 'us-east-1', service: 'bedrock' });
    const sign = (origin: string, headers: string[] = []): string =>
      signatureOf(signer.sign({ ...converse, origin, headers }, nowMs)).signature;
    assert.equal(sign('https://a.example:443'), sign('https://a.example'));
    assert.notEqual(sign('https://a.example:8443'), sign('https://a.example'));
    assert.equal(sign('http://127.0.0.1:1', ['Host', 'a.example']), sign('https://a.example'));
  });

  test('another day has another key, and the first day its own again', () => {
    const signer = new SigV4Signer({ keys, region: 'us-east-1', service: 'bedrock' });
    const next = nowMs + 86_400_000;
    const sign = (ms: number): string => signatureOf(signer.sign(converse, ms)).signature;
    const [first, second, again] = [sign(nowMs), sign(next), sign(nowMs)];
    assert.equal(again, first);
    const fresh = new SigV4Signer({ keys, region: 'us-east-1', service: 'bedrock' });
    assert.equal(signatureOf(fresh.sign(converse, next)).signature, second);
  });

  test('a query that is no valid encoding is signed and not thrown at', () => {
    const signer = new SigV4Signer({ keys, region: 'us-east-1', service: 'bedrock' });
    assert.notEqual(signatureOf(signer.sign({ ...converse, path: '/?a=%zz' }, nowMs)).signature, '');
  });
});
