/** What `weir export` and `weir import` do with records, on any engine of the store. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import {
  runAdministrationCommand,
  type AdministrationTools,
} from '../../core/administration/cli/administration-command.ts';
import { readArguments } from '../../core/administration/cli/arguments.ts';
import type { Resources } from '../../core/ports/resources.ts';
import { type SecretBox, secretContext } from '../../core/ports/secret-managers.ts';
import { recordKinds } from '../../core/administration/transfer/record-data-schema.ts';
import { testClock } from '../../storage/embedded/chdb-fixture.ts';
import { auditStore } from '../../storage/postgres/audit-store.ts';
import { chainStart } from '../../storage/postgres/stored-records.ts';
import { createSecretBox, sealingKey } from '../../storage/secrets/key-file.ts';
import { testSecrets } from '../kit/test-secrets.ts';
import { homeOf, insertRecord, plantedSecret } from '../kit/planted-records.ts';
import { anOrganisation, aWorkspace } from './resources-records.ts';

/** A store that tests fill and empty. */
export interface TransferStore {
  readonly resources: Resources;
  /** A folder for files. */
  readonly folder: string;
  /** Forgets everything but the audit trails. */
  empty(): Promise<void>;
}

const everything = { offset: 0, limit: 100 };

/** The suite. `store` is asked when the tests run. */
export function testTransferOfRecords(store: () => TransferStore): void {
  async function weir(args: readonly string[], box: SecretBox = testSecrets) {
    const lines: string[] = [];
    const tools: AdministrationTools = {
      chainStart,
      verifyChain: auditStore.verifyChain,
      clock: testClock,
      atStore: (_, use) => use(store().resources),
      atKeys: () => Promise.reject(new Error('Not asked for.')),
      secretBox: () => Promise.resolve(box),
      print: (text) => void lines.push(text),
      complain: (text) => void lines.push(`! ${text}`),
    };
    const command = readArguments(args, {});
    assert.ok(command.name === 'export' || command.name === 'import');
    return { code: await runAdministrationCommand(command, tools), text: lines.join('\n') };
  }

  /** An organisation with a record of every kind: in a workspace, and of its own where there can be one. */
  async function filled() {
    const organisation = anOrganisation();
    const { id } = organisation;
    const workspace = aWorkspace(id);
    const ids: string[] = [];
    await store().resources.write(id, async (writer) => {
      await writer.organisations.ensure(organisation);
      await writer.workspaces.insert(workspace);
      for (const kind of recordKinds) {
        for (const own of [workspace.id, undefined]) {
          if ((own === undefined ? 'workspace' : 'organisation') === homeOf(kind)) continue;
          const one = randomUUID();
          ids.push(one);
          await insertRecord(writer, { kind, organisation: id, workspace: own, id: one });
        }
      }
    });
    return { id, workspace: workspace.id, ids };
  }

  async function exported(name = 'records.yaml'): Promise<{ file: string; text: string }> {
    const file = path.join(store().folder, name);
    const { code, text } = await weir(['export', '--out', file]);
    assert.equal(code, 0, text);
    return { file, text: await readFile(file, 'utf8') };
  }

  async function changed(text: string, name = 'changed.yaml'): Promise<string> {
    const file = path.join(store().folder, name);
    await writeFile(file, text);
    return file;
  }

  const prompts = (id: string) =>
    store().resources.read(({ records }) => records.list('prompt', id, {}, everything));

  describe('records in weir export and weir import', () => {
    test('records of every kind, versions and labels come out as the same bytes', async () => {
      await store().empty();
      const { id } = await filled();
      await filled();
      await store().resources.write(id, async ({ records }) => {
        const [prompt] = (await records.list('prompt', id, {}, everything)).data;
        const [label] = (await records.list('label', id, {}, everything)).data;
        assert.ok(prompt && label);
        for (let number = 2; number <= 40; number++) {
          await records.addVersion('prompt', id, {
            id: randomUUID(),
            recordId: prompt.id,
            name: 'x',
            data: prompt.data,
            createdBy: 'x',
            description: `${number}`,
            labelId: number === 17 ? label.id : '',
            createdAt: number,
          });
        }
      });
      const { file, text } = await exported();
      assert.ok(!text.includes(plantedSecret), 'secrets are sealed');
      for (const kind of recordKinds) assert.ok(text.includes(`"kind":"${kind}"`), kind);
      await store().empty();
      const { code, text: said } = await weir(['import', file]);
      assert.equal(code, 0, said);
      assert.equal((await exported('again.yaml')).text, text);
      const { records } = await store().resources.read(async ({ records: reader }) => ({
        records: (await reader.list('secret_reference', id, {}, everything)).data,
      }));
      for (const record of records)
        assert.ok(
          testSecrets
            .open(record.secrets['vault_token'] ?? '', secretContext(record.id, 'vault_token'))
            .startsWith(plantedSecret),
        );
    });

    test('an import can be repeated; what differs is named and stays, or is overwritten with --replace', async () => {
      await store().empty();
      const { id } = await filled();
      const { file, text } = await exported();
      const before = await store().resources.changes();
      const again = await weir(['import', file]);
      assert.equal(again.code, 0, again.text);
      assert.match(again.text, /: 0 added, \d+ were there already, 0 replaced/);
      assert.deepEqual(await store().resources.changes(), before);

      const [prompt] = (await prompts(id)).data;
      assert.ok(prompt);
      const other = text.replaceAll(`"name":"${prompt.name}"`, '"name":"Another name"');
      const kept = await weir(['import', await changed(other)]);
      assert.equal(kept.code, 1);
      assert.ok(kept.text.includes(`differs: prompt ${prompt.id}`), kept.text);
      const replaced = await weir(['import', await changed(other), '--replace']);
      assert.equal(replaced.code, 1, 'what a version says stays');
      assert.ok(replaced.text.includes(`differs: version ${prompt.id}-v1`), replaced.text);
      const [now] = (await prompts(id)).data.filter((one) => one.id === prompt.id);
      assert.deepEqual([now?.name, now?.version, now?.updatedBy], ['Another name', 2, 'weir import']);
    });

    test('a secret that says the same under another seal is the same', async () => {
      await store().empty();
      const { id } = await filled();
      const { file, text } = await exported();
      await store().resources.write(id, async ({ records }) => {
        const [one] = (await records.list('secret_reference', id, {}, everything)).data;
        assert.ok(one);
        const context = secretContext(one.id, 'vault_token');
        const sealed = testSecrets.seal(testSecrets.open(one.secrets['vault_token'] ?? '', context), context);
        await records.replace({ ...one, secrets: { vault_token: sealed }, version: one.version + 1 });
      });
      assert.notEqual((await exported('other.yaml')).text, text);
      const { code, text: said } = await weir(['import', file]);
      assert.equal(code, 0, said);
    });

    test('without the key that sealed them, the records are named and nothing is imported', async () => {
      await store().empty();
      await filled();
      const { file } = await exported();
      await store().empty();
      const stranger = createSecretBox({ current: sealingKey(Buffer.alloc(32, 'another')), previous: [] });
      const { code, text } = await weir(['import', file], stranger);
      assert.equal(code, 1);
      assert.match(text, /! .*records\.yaml:\d+:\d+: the secrets of these records were sealed with a key/);
      assert.match(text, /secret reference ".*-slug" in line \d+.*WEIR_SECRET_KEY_PREVIOUS/);
      assert.deepEqual(await store().resources.read(({ organisations }) => organisations.list()), []);
    });

    test('what an older key sealed is sealed with the present one', async () => {
      await store().empty();
      const { id } = await filled();
      const { file } = await exported();
      await store().empty();
      const old = sealingKey(Buffer.alloc(32, 'a key for tests'));
      const next = createSecretBox({ current: sealingKey(Buffer.alloc(32, 'next')), previous: [old] });
      assert.equal((await weir(['import', file], next)).code, 0);
      const { data } = await store().resources.read(({ records }) =>
        records.list('integration', id, {}, everything),
      );
      assert.ok(data.length > 0 && data.every(({ secrets }) => next.isCurrent(secrets['key'] ?? '')));
    });

    const mistakes: readonly (readonly [string, (text: string) => string, RegExp])[] = [
      ['no JSON', (text) => text.replace(/--- \{.*/, '--- {'), /:\d+:1: is no JSON/],
      ['an unknown kind', (text) => text.replace('"kind":"config"', '"kind":"confg"'), /\/kind/],
      ['an unknown field', (text) => text.replace('--- {', '--- {"x":1,'), /unknown key "x"/],
      [
        'data of another kind',
        (text) => text.replace(/("kind":"label".*"data":)\{[^}]*\}/, '$1{"isDefault":false}'),
        /\/data\/description: missing key/,
      ],
      [
        'an organisation that the file does not have',
        (text) => text.replace(/--- \{"organisation_id":"[^"]*"/, '--- {"organisation_id":"nobody"'),
        /the file has no organisation "nobody"/,
      ],
      [
        'a version without its record',
        (text) => text.replace(/"version_of":"[^"]*"/, '"version_of":"x"'),
        /"x" is not the record that stands before it/,
      ],
      [
        'a version that is not the next one',
        (text) => text.replace('"number":1', '"number":3'),
        /is 3, and version 1 of the record was expected/,
      ],
      [
        'a workspace that nobody knows',
        (text) => text.replace(/"workspace_id":"[^"]*"/, '"workspace_id":"nowhere"'),
        /no workspace "nowhere".*Nothing of the organisation/,
      ],
      ['something behind the records', (text) => `${text}organisations: []\n`, /does not begin with "--- "/],
    ];
    test('more than one transaction takes: what fails names the lines that are stored', async () => {
      await store().empty();
      const { id } = await filled();
      // A store ends what takes longer than 30 seconds: on a busy machine all of them at once would.
      for (let from = 2; from <= 2100; from += 300) {
        await store().resources.write(id, async ({ records }) => {
          const [prompt] = (await records.list('prompt', id, {}, everything)).data;
          assert.ok(prompt);
          for (let number = from; number < Math.min(from + 300, 2101); number++) {
            await records.addVersion('prompt', id, {
              id: randomUUID(),
              recordId: prompt.id,
              name: 'x',
              data: prompt.data,
              createdBy: 'x',
              description: '',
              labelId: '',
              createdAt: number,
            });
          }
        });
      }
      const { text } = await exported();
      const lines = text.split('\n');
      const first = lines.findIndex((line) => line.startsWith('--- {'));
      await store().empty();
      // Its own workspace is not there: the last record is refused, in the second transaction.
      const last = lines.findLastIndex((line) => line.includes('"slug"'));
      const spoilt = lines.with(
        last,
        (lines[last] ?? '').replace('"kind"', '"workspace_id":"nowhere","kind"'),
      );
      spoilt[last] = (spoilt[last] ?? '').replace(
        /("workspace_id":"nowhere".*)"workspace_id":"[^"]*",/,
        '$1',
      );
      const failed = await weir(['import', await changed(spoilt.join('\n'))]);
      assert.equal(failed.code, 1);
      assert.match(failed.text, new RegExp(`changed\\.yaml:${last + 1}:1: There is no workspace "nowhere"`));
      assert.ok(failed.text.includes(`What stands before line ${first + 2001} was imported`), failed.text);
      const whole = await weir(['import', await changed(text)]);
      assert.equal(whole.code, 0, whole.text);
      assert.equal((await exported('again.yaml')).text, text);
    });

    let sound = '';
    for (const [name, spoil, expected] of mistakes) {
      test(`${name} is refused with its line, and nothing is imported`, async () => {
        if (sound === '') {
          await store().empty();
          await filled();
          sound = (await exported()).text;
          await store().empty();
        }
        const { code, text: said } = await weir(['import', await changed(spoil(sound))]);
        assert.equal(code, 1);
        assert.match(said, expected);
        assert.match(said, /changed\.yaml:\d+:\d+: /);
        assert.deepEqual(await store().resources.read(({ organisations }) => organisations.list()), []);
      });
    }
  });
}
