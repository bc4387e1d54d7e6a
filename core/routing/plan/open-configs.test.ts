// Configs of the configuration that name what is saved, and configs of a whole organisation: each workspace has its own.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { RouteConfigInput } from '../../organisation/route-config.ts';
import type { ConfigData } from '../../ports/record-kinds.ts';
import type { StoredRecord } from '../../ports/records.ts';
import { provider, recordsDirectory } from '../stored-records.test-support.ts';
import { checked, knowsProvider } from './config-kit.test-support.ts';
import { ConfigStore } from './config-store.ts';

function config(slug: string, said: unknown, workspaceId: string | undefined): StoredRecord<'config'> {
  const data = { config: checked(said) as ConfigData['config'], isDefault: false };
  const id = `${slug} ${workspaceId ?? ''}`;
  return {
    kind: 'config',
    id,
    organisationId: 'org-1',
    workspaceId,
    slug,
    name: slug,
    status: 'active',
    parentId: '',
    data,
    secrets: {},
    createdBy: '',
    updatedBy: '',
    createdAt: 1,
    updatedAt: 1,
    version: 1,
  };
}

const one = { organisationId: 'org-1', workspaceId: 'ws-1' };
const two = { organisationId: 'org-1', workspaceId: 'ws-2' };

function storeOf(configs: Readonly<Record<string, RouteConfigInput>>, records: readonly StoredRecord[]) {
  const saved = recordsDirectory(records);
  return { saved, configs: new ConfigStore({ configs, knowsProvider, saved }) };
}

function codeOf(run: () => unknown): string {
  try {
    run();
    return 'it is taken';
  } catch (error) {
    assert.ok(GatewayError.is(error));
    return `${error.code}: ${error.message}`;
  }
}

describe('a config of the configuration', () => {
  it('may name a provider that only a store has, compiled once for all', () => {
    const { configs } = storeOf({ main: checked({ virtual_key: 'stored' }) }, []);
    assert.equal(configs.bySlug('main', one), configs.bySlug('main', two));
    assert.equal(configs.bySlug('main').leaves[0]?.provider?.name, 'stored');
  });

  it('may name a saved config: that of the workspace, as it is now', () => {
    const own = { main: checked({ config: 'pc-own' }), over: checked({ config: 'main' }) };
    const first = config('pc-own', { provider: 'openai', custom_host: 'http://10.0.0.1' }, 'ws-1');
    const { configs, saved } = storeOf(own, [first]);
    for (const name of ['main', 'over']) {
      assert.equal(configs.missing(name, one), undefined);
      const found = configs.bySlug(name, one);
      assert.equal(configs.bySlug(name, one), found, 'it is compiled once');
      assert.equal(found.isSaved, false);
      // Its address is the word of those who saved it, and no operator's.
      assert.deepEqual(
        found.leaves.map(({ isSaved, definedIn, provider }) => [isSaved, definedIn, provider?.name]),
        [[true, undefined, 'openai']],
      );
      assert.match(
        codeOf(() => configs.bySlug(name, two)),
        /^invalid_config: The config "\w+" cannot be used in this workspace\. .*there is no config "pc-own"/,
      );
      assert.match(
        codeOf(() => configs.bySlug(name)),
        /^invalid_config: .*"pc-own"/,
      );
    }
    saved.put({ ...first, data: { ...first.data, config: { provider: 'anthropic' } }, version: 2 });
    assert.equal(configs.bySlug('over', one).leaves[0]?.provider?.name, 'anthropic');
  });

  it('that is wrong for another reason is still refused', () => {
    assert.throws(() => storeOf({ main: checked({ provider: 'nobody' }) }, []), /"main" is not valid/);
  });
});

describe('a config of the whole organisation', () => {
  it('means in each workspace what that has', () => {
    const shared = config('pc-all', { virtual_key: 'mine' }, undefined);
    const { configs, saved } = storeOf({}, [shared, provider()]);
    const found = configs.bySlug('pc-all', one);
    assert.deepEqual([found.slug, found.isSaved, found.leaves[0]?.isSaved], ['pc-all', true, true]);
    assert.equal(configs.bySlug('pc-all', one), found);
    assert.match(
      codeOf(() => configs.bySlug('pc-all', two)),
      /^invalid_config: .*there is no virtual key "mine"/,
    );
    saved.put(provider({}, { id: 'provider-2', workspaceId: 'ws-2' }));
    const other = configs.bySlug('pc-all', two);
    assert.notEqual(other.id, found.id, 'its breakers are its own');
    saved.put({ ...shared, data: { ...shared.data, config: { provider: 'openai' } } });
    assert.equal(configs.bySlug('pc-all', one).leaves[0]?.provider?.name, 'openai');
  });
});

describe('the version of a config', () => {
  it('is that of its record, also where the record belongs to the organisation', () => {
    const own = { ...config('pc-own', { provider: 'openai' }, 'ws-1'), version: 4 };
    const shared = { ...config('pc-shared', { provider: 'openai' }, undefined), version: 7 };
    const { configs } = storeOf({ main: checked({ config: 'pc-own' }) }, [own, shared]);
    const versions = ['pc-own', 'pc-shared', 'main'].map((name) => configs.bySlug(name, one).version);
    assert.deepEqual(versions, [4, 7, undefined]);
    assert.equal(configs.inline('{"provider":"openai"}').version, undefined);
  });
});
