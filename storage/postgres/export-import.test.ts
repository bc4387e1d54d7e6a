// `weir export`, `weir import` and `weir audit verify` on a store.
import assert from 'node:assert/strict';
import { readFile, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { sql } from 'drizzle-orm';
import {
  runAdministrationCommand,
  type AdministrationTools,
} from '../../core/administration/cli/administration-command.ts';
import { readArguments } from '../../core/administration/cli/arguments.ts';
import { defaultSecurity } from '../../core/ports/organisation-settings.ts';
import type { InviteRecord } from '../../core/ports/people.ts';
import type { Resources } from '../../core/ports/resources.ts';
import { sha256 } from '../../core/base/bytes.ts';
import { aKey, anEntry, anOrganisation, aWorkspace } from '../../tests/conformance/resources-records.ts';
import { samplesOf, shownInForm } from '../../tests/kit/document-samples.ts';
import { openTestDatabase } from '../../tests/kit/postgres-kit.ts';
import { recordingLog, temporaryFolder, testClock } from '../embedded/chdb-fixture.ts';
import { auditStore } from './audit-store.ts';
import type { Database } from './database.ts';
import { createResources } from './resources.ts';
import { chainStart } from './stored-records.ts';

let database: Database;
let resources: Resources;
let folder: string;

const closings: (() => Promise<void>)[] = [];

before(async () => {
  const closing = { after: (close: () => Promise<void>) => void closings.push(close) };
  database = await openTestDatabase(closing);
  resources = createResources({ database, clock: testClock, log: recordingLog() });
  const temporary = await temporaryFolder();
  closings.push(() => temporary.remove());
  folder = temporary.path;
});
after(async () => {
  for (const close of closings) await close();
});
beforeEach(empty);

/** Forgets everything but the audit trails, whose trigger forbids it; nobody asks for those. */
async function empty(): Promise<void> {
  await database.query((statements) =>
    statements.execute(sql`DO $$ BEGIN EXECUTE (
      SELECT 'TRUNCATE ' || string_agg(quote_ident(tablename), ', ') || ' CASCADE' FROM pg_tables
      WHERE schemaname = 'public' AND tablename NOT IN ('audit_logs', 'weir_migrations')); END $$`),
  );
}

const minute = 60_000;
const at = Date.parse('2026-03-01T10:00:00.123Z');

/** An organisation with something of every kind; its id. */
async function filled(): Promise<string> {
  const organisation = anOrganisation();
  const { id } = organisation;
  const made = { createdAt: at, updatedAt: at + minute, version: 3 };
  await resources.write(id, async (writer) => {
    await writer.organisations.ensure(organisation);
    const workspace = aWorkspace(id, {
      version: 7,
      description: 'null',
      name: '${NAME}: "odd"\n#',
      icon: '',
    });
    await writer.workspaces.insert(workspace);
    await writer.workspaces.insert(aWorkspace(id, { status: 'archived' }));
    const user = { id: `u-${id}`, organisationId: id, email: 'ada@example.com', role: 'owner' } as const;
    await writer.users.insert({ ...user, firstName: 'Ada', lastName: '1e3', ...made });
    await writer.members.insert({
      organisationId: id,
      workspaceId: workspace.id,
      userId: user.id,
      role: 'manager',
      ...made,
    });
    await writer.apiKeys.insert(aKey(id, { workspaceId: workspace.id, scopes: ['logs.view'], version: 2 }));
    await writer.apiKeys.insert(
      aKey(id, {
        type: 'organisation-service',
        workspaceId: undefined,
        expiresAt: undefined,
        usageLimits: undefined,
        scopes: ['workspaces.list'],
        secrets: [
          { hash: sha256(`one ${id}`, 'base64'), expiresAt: undefined },
          { hash: sha256(`two ${id}`, 'base64'), expiresAt: at + 30 * minute },
        ],
      }),
    );
    const invite: Omit<InviteRecord, 'id' | 'email' | 'status' | 'tokenHash' | 'expiresAt'> = {
      organisationId: id,
      role: 'member',
      workspaces: [{ id: workspace.id, role: 'member' }],
      keyScopes: ['logs.view'],
      invitedBy: user.id,
      acceptedAt: undefined,
      ...made,
    };
    await writer.invites.insert({
      ...invite,
      id: `i-${id}`,
      email: 'bob@example.com',
      status: 'pending',
      tokenHash: sha256(`token ${id}`, 'base64'),
      expiresAt: at + 1e12,
    });
    await writer.invites.insert({
      ...invite,
      id: `c-${id}`,
      email: 'eve@example.com',
      status: 'cancelled',
      tokenHash: sha256(`other ${id}`, 'base64'),
      expiresAt: at + 1e12,
    });
    await writer.groupMappings.insert({
      id: `g-${id}`,
      organisationId: id,
      workspaceId: workspace.id,
      role: 'member',
      groupId: 'group-1',
      groupName: '',
      createdAt: at,
    });
    await writer.settings.replaceOrganisation({
      organisationId: id,
      overridable: ['prompts'],
      defaults: { metadata: { a: 'b' } },
      security: {
        ...defaultSecurity,
        user_api_keys: { maxPerWorkspace: 3, defaultDays: undefined, maxDays: 9 },
      },
      updatedAt: at,
      version: 1,
    });
    await writer.settings.replaceWorkspace({
      organisationId: id,
      workspaceId: workspace.id,
      updatedAt: at,
      version: 1,
      overrides: { prompts: { ...defaultSecurity.prompts, membersViewPrompts: false } },
    });
  });
  return id;
}

/** Runs a command line against the store. */
async function weir(...args: string[]) {
  const lines: string[] = [];
  const tools: AdministrationTools = {
    chainStart,
    verifyChain: auditStore.verifyChain,
    clock: testClock,
    atStore: (_, use) => use(resources),
    atKeys: () => Promise.reject(new Error('No keys here.')),
    secretBox: () => Promise.reject(new Error('No keys here.')),
    print: (text) => void lines.push(text),
    complain: (text) => void lines.push(`! ${text}`),
  };
  const command = readArguments(args, {});
  assert.ok(
    command.name === 'export' || command.name === 'import' || command.name === 'audit',
    args.join(' '),
  );
  return { code: await runAdministrationCommand(command, tools), text: lines.join('\n') };
}

async function exported(): Promise<string> {
  const { code, text } = await weir('export');
  assert.equal(code, 0, text);
  return `${text}\n`;
}

async function fileOf(text: string, name = 'export.yaml'): Promise<string> {
  const file = path.join(folder, name);
  await writeFile(file, text);
  return file;
}

const trail = (id: string) => resources.read(({ audit }) => audit.list(id, {}, { offset: 0, limit: 100 }));

describe('weir export and weir import', () => {
  test('an export that is imported into an empty store is exported as the same bytes', async () => {
    const id = await filled();
    await filled();
    const text = await exported();
    for (const part of ['ada@example.com', 'bob@example.com', 'group-1', sha256(`one ${id}`, 'base64')])
      assert.ok(text.includes(part), part);
    assert.ok(!text.includes('eve@example.com'), 'only pending invites');
    await empty();
    const first = await weir('import', await fileOf(text));
    assert.equal(first.code, 0, first.text);
    assert.match(first.text, /: 11 added, 0 were there already, 0 replaced, 0 differ and stay/);
    assert.equal(await exported(), text);
    const { data } = await trail(id);
    assert.deepEqual(
      data.map(({ action, actorType, actorId, resourceId, uri }) => [
        action,
        actorType,
        actorId,
        resourceId,
        uri,
      ]),
      [['import', 'system', 'weir import', id, 'export.yaml']],
    );
    assert.equal(JSON.parse(data[0]?.details ?? '').key.added, 2);
  });

  test('an import can be repeated: nothing is written, nothing is audited', async () => {
    const id = await filled();
    const file = await fileOf(await exported());
    const before = await resources.changes();
    const { code, text } = await weir('import', file);
    assert.equal(code, 0, text);
    assert.match(text, /: 0 added, 11 were there already/);
    assert.deepEqual(await resources.changes(), before);
    assert.equal((await trail(id)).total, 0);
  });

  test('what differs is named and stays; --replace overwrites it as its next version', async () => {
    const id = await filled();
    const text = (await exported())
      .replace('first_name: Ada', 'first_name: Augusta')
      .replace('maxDays: 9', 'maxDays: 8');
    const file = await fileOf(text);
    const kept = await weir('import', file);
    assert.equal(kept.code, 1);
    assert.ok(kept.text.includes(`differs: user u-${id}`) && kept.text.includes(`differs: settings ${id}`));
    const user = () => resources.read(({ users }) => users.find(id, `u-${id}`));
    assert.equal((await user())?.firstName, 'Ada');
    const replaced = await weir('import', file, '--replace');
    assert.equal(replaced.code, 0, replaced.text);
    assert.match(replaced.text, /: 0 added, 9 were there already, 2 replaced/);
    assert.deepEqual([(await user())?.firstName, (await user())?.version], ['Augusta', 4]);
    assert.equal((await weir('import', file)).code, 0);
    assert.equal((await trail(id)).total, 1);
  });

  test('one organisation by its id, into a file that only its user reads', async () => {
    const id = await filled();
    const other = await filled();
    const out = path.join(folder, 'one.yaml');
    const { code, text } = await weir('export', '--organisation', id, '--out', out);
    assert.equal(code, 0, text);
    const written = await readFile(out, 'utf8');
    assert.ok(written.includes(id) && !written.includes(other));
    assert.equal((await stat(out)).mode & 0o777, 0o600);
    const unknown = await weir('export', '--organisation', 'nobody');
    assert.equal(unknown.code, 1);
    assert.match(unknown.text, /no organisation "nobody". It has: org-/);
  });

  test('an invite that was cancelled meanwhile is not opened again', async () => {
    const id = await filled();
    const file = await fileOf(await exported());
    await resources.write(id, async ({ invites }) => {
      const pending = await invites.find(id, `i-${id}`);
      assert.ok(pending !== undefined);
      await invites.replace({ ...pending, status: 'cancelled', version: pending.version + 1 });
    });
    const { code, text } = await weir('import', file, '--replace');
    assert.equal(code, 1);
    assert.ok(text.includes(`differs: invite i-${id}`), text);
  });

  const mistakes: readonly (readonly [string, (text: string) => string, RegExp])[] = [
    [
      'an unknown key',
      (text) => text.replace('email:', 'emial:'),
      /^! .*bad\.yaml:\d+:\d+: unknown key "emial"; did you mean "email"\?/,
    ],
    ['another format', (text) => text.replace('weir-export-1', 'weir-export-9'), /bad\.yaml:4:9: "format"/],
    ['a hash that is none', (text) => text.replace(/token_sha256: .*/, 'token_sha256: x'), /"token_sha256"/],
    [
      'a date that is none',
      (text) => text.replace(/created_at: .*/, 'created_at: yesterday'),
      /"created_at"/,
    ],
    ['no YAML', () => 'format: [', /bad\.yaml:1:/],
    ['an empty file', () => '# nothing\n', /bad\.yaml:1:1: the file is empty/],
    [
      'a record twice',
      (text) =>
        text.replace(
          'organisations:\n',
          (start) => start + text.slice(text.indexOf('organisations:\n') + start.length),
        ),
      /bad\.yaml:\d+:\d+: "org-.*" is there twice; the first stands at .*bad\.yaml:6:5/,
    ],
    [
      'a member who is nobody',
      (text) => text.replace(/user_id: u-.*/, 'user_id: u-x'),
      /bad\.yaml:\d+:\d+: there is no user "u-x".*Nothing of the organisation/,
    ],
    [
      'a type without its workspace',
      (text) => text.replace('type: organisation-service', 'type: workspace-service'),
      /needs a workspace_id/,
    ],
  ];
  for (const [name, spoil, expected] of mistakes) {
    test(`${name} is refused, and nothing is imported`, async () => {
      await filled();
      const text = await exported();
      await empty();
      const { code, text: said } = await weir('import', await fileOf(spoil(text), 'bad.yaml'));
      assert.equal(code, 1);
      assert.match(said, expected);
      assert.deepEqual(await resources.read(({ organisations }) => organisations.list()), []);
    });
  }

  test('a name that is taken leaves nothing of the organisation behind', async () => {
    const id = await filled();
    const text = await exported();
    const file = await fileOf(text.replaceAll(`id: u-${id}`, `id: v-${id}`));
    const before = await resources.changes();
    const { code, text: said } = await weir('import', file);
    assert.equal(code, 1);
    assert.match(said, /export\.yaml:6:5: .*"ada@example\.com" already.*Nothing of the organisation/);
    assert.deepEqual(await resources.changes(), before);
  });
});

describe('weir audit verify', () => {
  async function chained(count: number): Promise<string> {
    const organisation = anOrganisation();
    const { id } = organisation;
    for (let done = 0; done < count; done += 500)
      await resources.write(id, async ({ audit, organisations }) => {
        await organisations.ensure(organisation);
        for (let n = done; n < Math.min(done + 500, count); n += 1) await audit.append(anEntry(id));
      });
    return id;
  }

  /** Does what nobody can do without dropping the trigger. */
  const tamper = (statement: ReturnType<typeof sql>) =>
    database.transaction(async (statements) => {
      await statements.execute(sql`ALTER TABLE audit_logs DISABLE TRIGGER ALL`);
      await statements.execute(statement);
      await statements.execute(sql`ALTER TABLE audit_logs ENABLE TRIGGER ALL`);
    });

  test('says how many records there are, over several pages', async () => {
    const id = await chained(1003);
    assert.deepEqual(await weir('audit', 'verify', '--organisation', id), {
      code: 0,
      text: `${id} (Organisation ${id}): 1003 records, ok`,
    });
    assert.equal((await weir('audit', 'verify')).code, 0);
    assert.equal((await weir('audit', 'verify', '--organisation', 'nobody')).code, 1);
  });

  const faults: readonly (readonly [string, (id: string) => ReturnType<typeof sql>, RegExp])[] = [
    [
      'a changed record',
      (id) => sql`UPDATE audit_logs SET actor_name = 'x' WHERE organisation_id = ${id} AND number = 3`,
      /: record 3 does not match .*was changed/,
    ],
    [
      'a record removed from the middle',
      (id) => sql`DELETE FROM audit_logs WHERE organisation_id = ${id} AND number = 2`,
      /: record 2 was expected .*was removed/,
    ],
    [
      'an end that was cut off',
      (id) => sql`DELETE FROM audit_logs WHERE organisation_id = ${id} AND number > 3`,
      /: record 4 and everything behind it, up to record 5, was removed/,
    ],
    [
      'a whole trail that is gone',
      (id) => sql`DELETE FROM audit_logs WHERE organisation_id = ${id}`,
      /: record 1 and everything behind it, up to record 5/,
    ],
    [
      'an end that another one was put in place of',
      (id) => sql`UPDATE organisation_counters SET audit_hash = 'x' WHERE organisation_id = ${id}`,
      /: record 5 is not the one that the store keeps as the end/,
    ],
    [
      'an end of which the count was set back',
      (id) => sql`UPDATE organisation_counters SET audits = 4 WHERE organisation_id = ${id}`,
      /: record 5 was added behind the end that the store keeps, record 4/,
    ],
  ];
  for (const [name, statement, expected] of faults) {
    test(`${name} is found, and the other trails are fine`, async () => {
      const other = await chained(2);
      const id = await chained(5);
      await tamper(statement(id));
      const { code, text } = await weir('audit', 'verify');
      assert.equal(code, 1);
      assert.match(text, expected);
      assert.ok(text.includes(`${other} (Organisation ${other}): 2 records, ok`));
      if (name !== 'a changed record') return;
      const page = (await samplesOf('docs/administration.md')).find((one) => one.text.includes('4c9f…'));
      for (const line of page?.text.split('\n') ?? assert.fail('the page has no sample'))
        assert.match(text, shownInForm(line.replace(/^.*\)/, '…')));
    });
  }
});
