import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compileSchema } from './ajv.ts';
import { Alerts } from './alerts-schema.ts';
import { loadConfig } from './load-config.ts';

const mistakes = (value: object): string[] =>
  compileSchema(Alerts, { all: true })(value).map(({ path, message }) => `${path} ${message}`);

const smtp = { url: 'smtp://mail.example.com:587', from: 'weir@example.com' };
const webhook = { url: 'https://example.com/hooks', secret: `whsec_${'a'.repeat(32)}` };

describe('alerts: in the file', () => {
  const taken: readonly object[] = [
    {},
    { smtp },
    { smtp: { ...smtp, url: 'smtps://[::1]' } },
    { smtp: { ...smtp, url: 'smtp://ann%40example.com:p%2Fw@mail.example.com:587' } },
    { smtp: { ...smtp, username: 'ann@example.com', password: 'p/w@', require_tls: false } },
    { smtp: { ...smtp, from: 'Weir Müller <weir@example.com>' } },
    {
      webhooks: [
        webhook,
        { ...webhook, url: 'http://10.0.0.1:8080/a@b?c=d', events: ['usage.limit_exhausted'] },
      ],
    },
  ];
  for (const value of taken)
    test(`${JSON.stringify(value)} is taken`, () => {
      assert.deepEqual(mistakes(value), []);
    });

  const refused: readonly [object, RegExp][] = [
    [{ smtp: { from: smtp.from } }, /url/],
    [
      { smtp: { ...smtp, url: 'mail.example.com' } },
      /^\/smtp\/url expected an address such as "smtp:\/\/HOST:587"/,
    ],
    [{ smtp: { ...smtp, url: 'https://mail.example.com' } }, /^\/smtp\/url expected an address such as/],
    [{ smtp: { ...smtp, from: 'weir' } }, /^\/smtp\/from expected an e-mail address/],
    [{ smtp: { ...smtp, from: 'a@b.c\r\nBcc: d@e.f' } }, /^\/smtp\/from expected an e-mail address/],
    [{ smtp: { ...smtp, ca: 'mail-ca.pem' } }, /^\/smtp\/ca expected certificates as PEM/],
    [
      { webhooks: [{ ...webhook, url: 'ftp://example.com' }] },
      /^\/webhooks\/0\/url expected an address such as/,
    ],
    [
      { webhooks: [{ ...webhook, secret: 'whsec_short' }] },
      /^\/webhooks\/0\/secret expected "whsec_" and 24 to 64/,
    ],
    [{ webhooks: [{ ...webhook, events: ['usage.other'] }] }, /^\/webhooks\/0\/events\/0 expected/],
    [{ webhooks: [{ ...webhook, headers: {} }] }, /headers/],
  ];
  for (const [value, message] of refused)
    test(`${JSON.stringify(value)} is refused`, () => {
      const found = mistakes(value);
      assert.equal(found.length, 1);
      assert.match(found[0] ?? '', message);
    });

  const secrets: readonly object[] = [
    { smtp: { ...smtp, url: 'smtp://ann:s3cret/@mail' } },
    { smtp: { ...smtp, url: 'smtp://ann:s3cret%zz@mail' } },
    { smtp: { ...smtp, url: 'https://ann:s3cret@mail' } },
    { smtp: { ...smtp, url: 'smtp://ann:s3cret@mail/path' } },
    { smtp: { ...smtp, username: 'ann', password: 's3cret'.repeat(500) } },
    { webhooks: [{ ...webhook, url: 'https://ann:s3cret@example.com/' }] },
    { webhooks: [{ ...webhook, url: 'https://ann:s3cret@example.com/a b' }] },
    { webhooks: [{ ...webhook, secret: 'whsec_s3cret' }] },
  ];
  for (const [index, value] of secrets.entries())
    test(`a mistake beside a secret is told without it (${index})`, () => {
      const found = mistakes(value);
      assert.equal(found.length, 1, found.join('\n'));
      assert.doesNotMatch(found[0] ?? '', /s3cret/);
    });
});

test('alerts without a store are warned of', async () => {
  const warned = async (url: string): Promise<string[]> => {
    const text = `version: 1
storage: { resources: { url: '${url}' } }
pipelines: [{ name: a, match: { path: / }, plugins: [auth] }]
alerts: { webhooks: [{ url: '${webhook.url}', secret: '${webhook.secret}' }] }`;
    const readFile = () => Promise.resolve(Buffer.from(text));
    const loaded = await loadConfig('g.yaml', { env: {}, readFile });
    assert.ok(loaded.ok);
    return loaded.warnings.map(({ line, message }) => `${line} ${message}`);
  };
  assert.deepEqual(await warned('pglite:'), []);
  assert.deepEqual(await warned('none:'), [
    '4 "alerts": nobody is told, because storage.resources.url is "none:"; name a store there',
  ]);
});
