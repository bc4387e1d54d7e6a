// `weir rotate-secrets` on a store, with the keys of a data folder and of variables.
import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test, type TestContext } from 'node:test';
import {
  runAdministrationCommand,
  type KeyRotation,
} from '../../core/administration/cli/administration-command.ts';
import { readArguments } from '../../core/administration/cli/arguments.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import type { Resources } from '../../core/ports/resources.ts';
import { type SecretBox, secretContext } from '../../core/ports/secret-managers.ts';
import { rotationKeys } from '../../main/administration-tools.ts';
import { anOrganisation } from '../../tests/conformance/resources-records.ts';
import { openTestDatabase } from '../../tests/kit/postgres-kit.ts';
import { recordingLog, temporaryFolder, testClock } from '../embedded/chdb-fixture.ts';
import { lockData } from '../embedded/data-lock.ts';
import { type KeyVariables, openKeys, createSecretBox } from '../secrets/key-file.ts';
import { auditStore } from './audit-store.ts';
import { createResources } from './resources.ts';
import { chainStart } from './stored-records.ts';

const closings: (() => Promise<void>)[] = [];
let resources: Resources;
before(async () => {
  const database = await openTestDatabase({ after: (close) => void closings.push(close) });
  resources = createResources({ database, clock: testClock, log: recordingLog() });
});
after(async () => {
  for (const close of closings) await close();
});

const none: KeyVariables = { current: undefined, previous: undefined };
const variable = (bytes: Buffer): string => bytes.toString('base64');

/** Stores organisations, each with some references whose secrets this box seals; their ids. */
async function planted(box: SecretBox, organisations: number, each: number): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let number = 0; number < organisations; number++) {
    const organisation = anOrganisation();
    await resources.write(organisation.id, async (writer) => {
      await writer.organisations.ensure(organisation);
      for (let one = 0; one < each; one++) await writer.records.insert(aReference(box, organisation.id));
    });
    ids.push(organisation.id);
  }
  return ids;
}

function aReference(box: SecretBox, organisationId: string): StoredRecord<'secret_reference'> {
  const id = randomUUID();
  const sealed = (field: string): string => box.seal(`${field} of ${id}`, secretContext(id, field));
  return {
    kind: 'secret_reference',
    id,
    organisationId,
    workspaceId: undefined,
    slug: id,
    name: 'r',
    status: 'active',
    parentId: '',
    createdBy: 'k',
    updatedBy: 'k',
    data: {
      description: '',
      managerType: 'hashicorp_vault',
      authConfig: {},
      secretPath: 'p',
      secretKey: '',
      allowAllWorkspaces: true,
      allowedWorkspaces: [],
    },
    secrets: { vault_token: sealed('vault_token'), other: sealed('other') },
    createdAt: 1,
    updatedAt: 1,
    version: 1,
  };
}

/** Runs the command; `change` may put something else in the place of what it works with. */
async function rotate(
  data: string,
  variables: KeyVariables = none,
  change: (rotation: KeyRotation) => KeyRotation = (rotation) => rotation,
) {
  const lines: string[] = [];
  const command = readArguments(['rotate-secrets', '--data', data], {});
  assert.ok(command.name === 'rotate-secrets');
  const code = await runAdministrationCommand(command, {
    chainStart,
    verifyChain: auditStore.verifyChain,
    clock: testClock,
    atStore: () => Promise.reject(new Error('Not asked for.')),
    secretBox: () => Promise.reject(new Error('Not asked for.')),
    async atKeys(_, use) {
      const keys = await rotationKeys(data, { variables, clock: testClock, ownsData: false });
      const { finish } = keys;
      try {
        return await use(change({ resources, box: createSecretBox(keys), finish }));
      } finally {
        await keys.release();
      }
    },
    print: (text) => void lines.push(text),
    complain: (text) => void lines.push(text),
  });
  return { code, text: lines.join('\n') };
}

async function all(organisationIds: readonly string[]): Promise<readonly StoredRecord[]> {
  const page = { offset: 0, limit: 100 };
  const lists = await Promise.all(
    organisationIds.map((id) =>
      resources.read(({ records }) => records.list('secret_reference', id, {}, page)),
    ),
  );
  return lists.flatMap(({ data }) => data);
}

function assertOpened(box: SecretBox, records: readonly StoredRecord[]): void {
  for (const { id, secrets } of records) {
    for (const [field, sealed] of Object.entries(secrets)) {
      assert.ok(box.isCurrent(sealed));
      assert.equal(box.open(sealed, secretContext(id, field)), `${field} of ${id}`);
    }
  }
}

async function folder(t: TestContext): Promise<string> {
  const made = await temporaryFolder();
  t.after(() => made.remove());
  return made.path;
}

/** Takes the records away again: a command looks through the whole store. */
async function cleared(organisationIds: readonly string[]): Promise<void> {
  for (const id of organisationIds) {
    const records = await all([id]);
    await resources.write(id, async (writer) => {
      for (const record of records) await writer.records.remove(record.kind, id, record.id);
    });
  }
}

describe('with a key file', () => {
  test('seals everything with a new key, writes that down, and drops the one before', async (t) => {
    const data = await folder(t);
    const old = createSecretBox(await openKeys(data, none));
    const ids = await planted(old, 2, 3);
    const { code, text } = await rotate(data);
    assert.equal(code, 0, text);
    assert.match(text, /^12 secrets were sealed anew, with the key [0-9a-f]{12}\.\n.*secret\.key holds/);

    const keys = await openKeys(data, none);
    assert.deepEqual([keys.previous, keys.current.id === old.keyId], [[], false]);
    const records = await all(ids);
    assertOpened(createSecretBox(keys), records);
    assert.ok(
      records.every(({ version, updatedBy }) => version === 2 && updatedBy === 'weir rotate-secrets'),
    );
    for (const id of ids) {
      const { data: rows } = await resources.read(({ audit }) => audit.list(id, {}, { offset: 0, limit: 9 }));
      assert.deepEqual(
        rows.map(({ actorType, actorId, action, details }) => [actorType, actorId, action, details]),
        [['system', 'weir rotate-secrets', 'rotate', `{"secrets":6,"key_id":"${keys.current.id}"}`]],
      );
    }
    // Again: another key, and nothing is lost.
    assert.equal((await rotate(data)).code, 0);
    assertOpened(createSecretBox(await openKeys(data, none)), await all(ids));
    await cleared(ids);
  });

  test('goes on where it was interrupted, with the same new key', async (t) => {
    const data = await folder(t);
    const ids = await planted(createSecretBox(await openKeys(data, none)), 3, 2);
    let writes = 0;
    const cut = await rotate(data, none, (rotation) => ({
      ...rotation,
      resources: {
        ...resources,
        write(id, work) {
          writes += 1;
          if (writes === 2) throw new Error('The power is gone.');
          return resources.write(id, work);
        },
      },
    }));
    assert.deepEqual([cut.code, cut.text], [1, 'The power is gone.']);
    const between = await openKeys(data, none);
    assert.equal(between.previous.length, 1);
    // A gateway that starts now opens both halves.
    const box = createSecretBox(between);
    for (const { id, secrets } of await all(ids))
      assert.equal(box.open(secrets['other'] ?? '', secretContext(id, 'other')), `other of ${id}`);

    const again = await rotate(data);
    assert.match(again.text, /^8 secrets were sealed anew/);
    const keys = await openKeys(data, none);
    assert.deepEqual([again.code, keys.current.id, keys.previous], [0, between.current.id, []]);
    assertOpened(createSecretBox(keys), await all(ids));
    await cleared(ids);
  });

  test('keeps the older keys while there is something that no key opens, and names it', async (t) => {
    const data = await folder(t);
    const box = createSecretBox(await openKeys(data, none));
    const ids = await planted(box, 1, 2);
    const [broken] = await all(ids);
    assert.ok(broken);
    const lost = { ...broken.secrets, other: box.seal('x', 'elsewhere') };
    await resources.write(broken.organisationId, ({ records }) =>
      records.replace({ ...broken, secrets: lost, version: 2 }),
    );
    const { code, text } = await rotate(data);
    assert.equal(code, 1);
    assert.match(
      text,
      new RegExp(`^3 secrets were sealed anew.*\nsecret_reference "${broken.slug}" of .*, other: `),
    );
    assert.match(text, /1 secrets could not be opened\. Older keys are kept/);
    assert.equal((await openKeys(data, none)).previous.length, 1);
    await cleared(ids);
  });

  test('does not begin while a gateway uses the data folder', async (t) => {
    const data = await folder(t);
    await openKeys(data, none);
    const before = await readFile(path.join(data, 'secret.key'), 'utf8');
    const lock = await lockData(data, { clock: testClock });
    t.after(() => lock.release());
    const { code, text } = await rotate(data);
    assert.equal(code, 1);
    assert.match(text, /in use by process \d+.*to rotate while gateways run, use WEIR_SECRET_KEY/);
    assert.equal(await readFile(path.join(data, 'secret.key'), 'utf8'), before);
  });
});

describe('with variables', () => {
  test('seals with the key of the variable what older ones, and a key file, sealed', async (t) => {
    const data = await folder(t);
    const [first, second] = [randomBytes(32), randomBytes(32)];
    const before = { current: variable(first), previous: undefined };
    const ids = [
      ...(await planted(createSecretBox(await openKeys(data, before)), 1, 2)),
      ...(await planted(createSecretBox(await openKeys(data, none)), 1, 1)),
    ];
    const now = { current: variable(second), previous: variable(first) };
    const { code, text } = await rotate(data, now);
    assert.equal(code, 0, text);
    assert.match(
      text,
      /^6 secrets .*\nWEIR_SECRET_KEY_PREVIOUS is not needed any more\. Neither is .*secret\.key/,
    );
    assertOpened(createSecretBox(await openKeys(data, { ...now, previous: undefined })), await all(ids));
    const versions = (await all(ids)).map(({ version }) => version);
    assert.match((await rotate(data, now)).text, /^0 secrets were sealed anew/);
    assert.deepEqual(
      (await all(ids)).map(({ version }) => version),
      versions,
    );
    await cleared(ids);
  });

  test('says so when an older key is missing', async (t) => {
    const data = await folder(t);
    const old = { current: variable(randomBytes(32)), previous: undefined };
    const box = createSecretBox(await openKeys(data, old));
    const ids = await planted(box, 1, 1);
    const { code, text } = await rotate(data, { ...none, current: variable(randomBytes(32)) });
    assert.equal(code, 1);
    assert.match(text, new RegExp(`sealed with the key ${box.keyId}.*WEIR_SECRET_KEY_PREVIOUS`));
    assert.match(text, /2 secrets could not be opened/);
    await cleared(ids);
  });
});
