import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { sha256 } from '../../tests/kit/plugin-kit.ts';
import { openIdentity, type IdentityOptions } from './open-identity.ts';

const preset = 'a-preset-owner-key';

async function folder(t: TestContext): Promise<string> {
  const directory = await mkdtemp(path.join(tmpdir(), 'identity-'));
  t.after(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

const open = (directory: string, options: Partial<IdentityOptions> = {}) =>
  openIdentity(directory, { presetKey: undefined, ownerEmail: undefined, keyPrefix: 'wk_', ...options });

const ids = ({ directory }: Awaited<ReturnType<typeof openIdentity>>) => [
  directory.defaultOrganisationId,
  directory.defaultWorkspaceId,
];

describe('the identity of a data folder', () => {
  test('the first start makes an organisation, a workspace and an owner key', async (t) => {
    const data = path.join(await folder(t), 'not', 'there', 'yet');
    const identity = await open(data, { keyPrefix: 'zz_' });
    const key = identity.newOwnerKey ?? '';
    assert.match(key, /^zz_[A-Za-z0-9_-]{40}$/);
    const owner = identity.directory.keyByHash(sha256(key));
    assert.deepEqual(
      [owner?.kind, owner?.scopes, owner?.expiresAt, owner?.name],
      ['owner', ['*'], null, 'owner'],
    );
    assert.deepEqual([owner?.organisationId, owner?.workspaceId], ids(identity));
    assert.notEqual(identity.directory.defaultOrganisationId, identity.directory.defaultWorkspaceId);
    for (const id of ids(identity)) assert.match(id, /^[0-9a-f-]{36}$/);
    assert.equal(identity.directory.keyByHash(sha256('another')), undefined);
  });

  test('only the hash is stored, readable by its owner alone', async (t) => {
    const data = await folder(t);
    const { newOwnerKey = '' } = await open(data);
    const file = path.join(data, 'identity.json');
    const text = await readFile(file, 'utf8');
    assert.ok(!text.includes(newOwnerKey.slice(3)));
    assert.ok(text.includes(sha256(newOwnerKey)));
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    assert.deepEqual(await readdir(data), ['identity.json'], 'no temporary file is left');
  });

  test('the next start knows the same, and shows no key again', async (t) => {
    const data = await folder(t);
    const first = await open(data);
    await first.keyShown();
    const second = await open(data);
    assert.equal(second.newOwnerKey, undefined);
    assert.deepEqual(ids(second), ids(first));
    const hash = sha256(first.newOwnerKey ?? '');
    assert.equal(second.directory.keyByHash(hash)?.id, first.directory.keyByHash(hash)?.id);
  });

  test('a key that no start has shown is replaced by one that can be', async (t) => {
    const data = await folder(t);
    const first = await open(data);
    const second = await open(data);
    const [lost = '', key = ''] = [first.newOwnerKey, second.newOwnerKey];
    assert.match(key, /^wk_[A-Za-z0-9_-]{40}$/);
    assert.notEqual(key, lost);
    assert.deepEqual(ids(second), ids(first));
    assert.equal(second.owner.id, first.owner.id);
    assert.equal(second.directory.keyByHash(sha256(lost)), undefined);
    const preset = await open(data, { presetKey: 'a-preset-owner-key' });
    assert.equal(preset.newOwnerKey, undefined);
    const third = await open(data);
    assert.equal(third.newOwnerKey, undefined, 'a preset key need not be shown');
  });

  test('a key that a joined organisation has is shown once, too', async (t) => {
    const data = await folder(t);
    const first = await open(data);
    const ids = { organisationId: randomUUID(), workspaceId: randomUUID(), ownerId: randomUUID() };
    const joined = await first.join({ ...ids, ownerEmail: 'kim@example.com' });
    assert.equal(joined.newOwnerKey, first.newOwnerKey);
    await joined.keyShown();
    const second = await open(data);
    assert.equal(second.newOwnerKey, undefined);
    assert.equal(second.directory.defaultOrganisationId, ids.organisationId);
    assert.ok(second.directory.keyByHash(sha256(first.newOwnerKey ?? '')));
  });

  test('the owner key belongs to a user, the same at every start', async (t) => {
    const data = await folder(t);
    const first = await open(data, { presetKey: preset });
    assert.match(first.owner.id, /^[0-9a-f-]{36}$/);
    assert.equal(first.directory.keyByHash(sha256(preset))?.userId, first.owner.id);
    assert.equal((await open(data)).owner.id, first.owner.id);
  });

  test('a file of before, without a user, gets one and keeps the rest', async (t) => {
    const data = await folder(t);
    const file = path.join(data, 'identity.json');
    const first = await open(data, { presetKey: preset });
    const before = JSON.parse(await readFile(file, 'utf8')) as Record<string, string>;
    delete before['owner_user_id'];
    await writeFile(file, JSON.stringify(before));
    const second = await open(data);
    assert.deepEqual(ids(second), ids(first));
    assert.notEqual(second.owner.id, first.owner.id);
    assert.equal(second.directory.keyByHash(sha256(preset))?.userId, second.owner.id);
    assert.equal((await open(data)).owner.id, second.owner.id);
  });

  const addresses: readonly [string | undefined, string][] = [
    [undefined, 'owner@localhost'],
    [' ', 'owner@localhost'],
    [' Kim@Example.COM ', 'kim@example.com'],
  ];
  for (const [ownerEmail, email] of addresses) {
    test(`the e-mail address of the owner: ${JSON.stringify(ownerEmail)}`, async (t) => {
      assert.equal((await open(await folder(t), { ownerEmail })).owner.email, email);
    });
  }

  for (const ownerEmail of ['kim', 'kim@', 'a b@c', `${'x'.repeat(250)}@y.de`]) {
    test(`no e-mail address: ${ownerEmail.slice(0, 8)}`, async (t) => {
      const data = await folder(t);
      await assert.rejects(open(data, { ownerEmail }), /^Error: WEIR_OWNER_EMAIL must be an e-mail address/);
      assert.deepEqual(await readdir(data), []);
    });
  }

  test('a preset key becomes the owner key, now and later', async (t) => {
    const data = await folder(t);
    const first = await open(data, { presetKey: preset });
    assert.equal(first.newOwnerKey, undefined);
    assert.equal(first.directory.keyByHash(sha256(preset))?.kind, 'owner');
    const changed = await open(data, { presetKey: 'another-owner-key' });
    assert.deepEqual(ids(changed), ids(first));
    assert.equal(changed.directory.keyByHash(sha256(preset)), undefined);
    assert.equal(changed.directory.keyByHash(sha256('another-owner-key'))?.kind, 'owner');
    const without = await open(data);
    assert.equal(without.directory.keyByHash(sha256('another-owner-key'))?.kind, 'owner');
  });

  test('a preset key that is too short is refused before anything is written', async (t) => {
    const data = await folder(t);
    await assert.rejects(open(data, { presetKey: 'x'.repeat(15) }), {
      message: 'WEIR_ADMIN_KEY is shorter than 16 characters. Choose a longer key.',
    });
    assert.deepEqual(await readdir(data), []);
  });

  const damaged: readonly [string, (text: string) => string][] = [
    ['no JSON', (text) => text.slice(0, 50)],
    ['empty', () => ''],
    ['a member is missing', (text) => text.replace('workspace_id', 'other_id')],
    ['an id that is none', (text) => text.replace(/"organisation_id": "[^"]+"/, '"organisation_id": "x"')],
    ['a hash that is none', (text) => text.replace(/"owner_key_sha256": "[^"]+"/, '"owner_key_sha256": "x"')],
  ];
  for (const [name, damage] of damaged) {
    test(`a damaged file is named and left as it is: ${name}`, async (t) => {
      const data = await folder(t);
      await open(data);
      const file = path.join(data, 'identity.json');
      const broken = damage(await readFile(file, 'utf8'));
      await writeFile(file, broken);
      await assert.rejects(open(data, { presetKey: preset }), (error: Error) => {
        assert.ok(error.message.startsWith(`${file} is damaged. Restore it from a backup`));
        return true;
      });
      assert.equal(await readFile(file, 'utf8'), broken);
    });
  }
});
