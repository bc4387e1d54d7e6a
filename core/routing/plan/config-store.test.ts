import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { GatewayError } from '../../errors/gateway-error.ts';
import { sha256 } from '../../base/bytes.ts';
import { checked, knowsProvider } from './config-kit.test-support.ts';
import { ConfigStore } from './config-store.ts';

const configs = {
  'pc-main-1a2b': checked({ provider: 'openai', retry: { attempts: 2 } }),
  backup: checked({
    strategy: { mode: 'fallback' },
    targets: [{ config: 'pc-main-1a2b' }, { provider: 'anthropic' }],
  }),
};

function store(): ConfigStore {
  return new ConfigStore({ configs, knowsProvider });
}

function refusal(run: () => unknown): GatewayError {
  try {
    run();
  } catch (error) {
    assert.ok(GatewayError.is(error));
    return error;
  }
  throw new assert.AssertionError({ message: 'it should be refused' });
}

describe('ConfigStore.bySlug', () => {
  it('finds a config by its exact name, compiled once', () => {
    const known = store();
    const found = known.bySlug('backup');
    assert.equal(known.bySlug('backup'), found);
    assert.deepEqual([found.id, found.slug], ['backup', 'backup']);
    assert.deepEqual(
      found.leaves.map(({ id, settings }) => [id, settings.retry?.attempts]),
      [
        ['backup#config.targets[0]', 2],
        ['backup#config.targets[1]', undefined],
      ],
    );
  });

  it('refuses a name that does not exist with config_unknown', () => {
    const error = refusal(() => store().bySlug('backpu'));
    const message =
      'There is no config "backpu". Did you mean "backup"? Define it under "configs" in the configuration, or send the config itself as JSON.';
    assert.deepEqual(
      [error.code, error.status, error.type, error.param, error.adminCode, error.message, error.extra],
      [
        'config_unknown',
        400,
        'invalid_request_error',
        'config',
        'AB01',
        message,
        { errors: [`AB01: path: config, message: ${message}`] },
      ],
    );
  });

  it('repeats of a name only its beginning, and knows no names of objects', () => {
    assert.ok(refusal(() => store().bySlug('x'.repeat(5000))).message.length < 500);
    for (const name of ['constructor', '__proto__', '', 'main-1a2b'])
      assert.equal(refusal(() => store().bySlug(name)).code, 'config_unknown');
  });

  it('is not made of configs that are not valid', () => {
    const wrong = { a: checked({ provider: 'opnai' }) };
    assert.throws(
      () => new ConfigStore({ configs: wrong, knowsProvider }),
      /The config "a" is not valid\. config\.provider: there is no provider "opnai"/,
    );
  });
});

describe('ConfigStore.inline', () => {
  it('compiles a text once, under a name made of it', () => {
    const known = store();
    const text = '{"provider":"openai","api_key":"sk-1"}';
    const config = known.inline(text);
    assert.equal(config.slug, undefined);
    assert.equal(config.id, `inline:${sha256(text, 'base64url')}`);
    assert.equal(config.leaves[0]?.id, `${config.id}#config`);
    assert.equal(known.inline(`${text}`), config);
    assert.notEqual(known.inline(text.replace('sk-1', 'sk-2')).id, config.id);
  });

  it('may refer to configs by name', () => {
    const { leaves } = store().inline(
      '{"strategy":{"mode":"loadbalance"},"targets":[{"config":"backup"},{"passthrough":true}]}',
    );
    assert.deepEqual(
      leaves.map(({ path }) => path),
      ['config.targets[0].targets[0]', 'config.targets[0].targets[1]', 'config.targets[1]'],
    );
  });

  it('refuses with invalid_config and every mistake with its place', () => {
    const error = refusal(() => store().inline('{"retry":{"attempts":"x"},"weight":-1,"zz":1,"yy":2}'));
    assert.deepEqual(
      [error.code, error.status, error.type, error.param, error.adminCode],
      ['invalid_config', 400, 'invalid_request_error', 'config', 'AB01'],
    );
    assert.match(error.message, /^The config is not valid\. config\.zz: unknown key "zz".* \| and 1 more\.$/);
    const errors = error.extra?.['errors'] as string[];
    assert.equal(errors.length, 4);
    for (const line of errors) assert.match(line, /^AB01: path: config\.[a-z.]+, message: \S/);
  });

  it('refuses what only compiling finds', () => {
    const error = refusal(() => store().inline('{"config":"nope"}'));
    assert.equal(
      error.message,
      'The config is not valid. config.config: there is no config "nope"; define it under "configs" in the configuration.',
    );
    assert.deepEqual(error.extra, {
      errors: [
        'AB01: path: config.config, message: there is no config "nope"; define it under "configs" in the configuration',
      ],
    });
  });

  it('says of a text that is no JSON just that', () => {
    const error = refusal(() => store().inline('{"provider": openai}'));
    assert.match(error.message, /^The config is not valid\. config: it is no JSON object; send one object/);
  });

  it('lists 20 mistakes at the most', () => {
    const text = JSON.stringify(
      Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`zz${index}`, 1])),
    );
    const error = refusal(() => store().inline(text));
    assert.equal((error.extra?.['errors'] as string[]).length, 20);
    assert.match(error.message, /and 47 more\.$/);
  });

  it('remembers refusals, and makes a new error of each', () => {
    const known = store();
    const [first, second] = [1, 2].map(() => refusal(() => known.inline('{"a":1}')));
    assert.notEqual(first, second);
    assert.equal(first?.message, second?.message);
  });

  it('remembers the 500 texts that were used last', () => {
    const known = store();
    const text = (index: number): string => `{"provider":"openai","request_timeout":${index}}`;
    const [first, second] = [known.inline(text(0)), known.inline(text(1))];
    for (let index = 2; index < 500; index++) known.inline(text(index));
    assert.equal(known.inline(text(0)), first);
    known.inline(text(500));
    assert.equal(known.inline(text(0)), first);
    assert.notEqual(known.inline(text(1)), second);
  });
});
