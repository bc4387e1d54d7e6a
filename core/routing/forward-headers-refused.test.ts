import assert from 'node:assert/strict';
import { test } from 'node:test';
import { refusedForwardName } from './forward-headers.ts';

const prefixes = ['x-service-', 'x-portkey-'];
const refused: readonly [reason: RegExp, names: readonly string[]][] = [
  [
    /gateway itself/,
    [
      ...['forward-headers', 'Forward-Headers', 'x-service-forward-headers', 'X-Portkey-Forward-Headers'],
      ...['x-service-api-key', 'x-portkey-metadata'],
    ],
  ],
  [
    /credentials/,
    [
      ...['authorization', 'Authorization', 'x-api-key', 'api-key', 'x-goog-api-key', 'cookie', 'Cookie'],
      'proxy-authorization',
    ],
  ],
  [
    /metadata services/,
    [
      ...['metadata', 'Metadata-Flavor', 'x-google-metadata-request', 'x-aws-ec2-metadata-token'],
      ...['x-aws-ec2-metadata-token-ttl-seconds', 'x-aliyun-ecs-metadata-token', 'x-identity-header'],
    ],
  ],
  [
    /one connection/,
    [
      ...['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'Upgrade'],
      'proxy-authenticate',
    ],
  ],
  [/sets it anew/, ['host', 'Expect', 'content-length', 'accept-encoding']],
  [/no name of a header/, ['', 'a b', 'a:b', 'ä', 'a\r\nb', '"a"']],
];
for (const [reason, names] of refused) {
  for (const name of names) {
    test(`"${name}" must not be forwarded`, () => {
      assert.match(refusedForwardName(name, prefixes) ?? '', reason);
    });
  }
}

test('everything else may be', () => {
  for (const name of ['x-user', 'X-Tenant', 'openai-beta', 'traceparent', 'user-agent', 'x-servicex', '*']) {
    assert.equal(refusedForwardName(name, prefixes), undefined, name);
  }
  assert.equal(refusedForwardName('x-service-a'), undefined, 'no prefix was given');
});
