import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AuditEntry, AuditFilter, AuditRecord, Resources } from '../../core/ports/resources.ts';
import { auditStore } from '../../storage/postgres/audit-store.ts';
import { chainStart } from '../../storage/postgres/stored-records.ts';
import type { Subject } from './resources.ts';
import { aKey, anEntry, newOrganisation } from './resources-records.ts';

/** What every implementation promises of the audit log. */
export function auditIsChained(subject: Subject): void {
  test('entries are numbered from 1, chained, and come back as they were, newest first', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    const entries = [
      anEntry(id),
      anEntry(id, { workspaceId: '', details: '' }),
      anEntry(id, { status: 403 }),
    ];
    await append(resources, id, entries.slice(0, 2));
    await append(resources, id, entries.slice(2));
    const chain = await chainOf(resources, id);
    assert.deepEqual(
      chain,
      entries.map((entry, index) => ({ ...entry, number: index + 1, hash: chain[index]?.hash })),
    );
    assert.deepEqual(auditStore.verifyChain(chain, chainStart), { ok: true });
    const listed = await resources.read(({ audit }) => audit.list(id, {}, { offset: 0, limit: 2 }));
    assert.deepEqual(listed, { total: 3, data: chain.slice(1).toReversed() });
    const rest = await resources.read(({ audit }) => audit.chain(id, 2));
    assert.deepEqual(rest, chain.slice(2));
  });

  test('refused attempts are listed in their order, are in no chain, and are removed when they are old', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    const refuse = (...entries: readonly AuditEntry[]) =>
      resources.write(id, async ({ audit }) => {
        for (const entry of entries) await audit.appendRefused(entry);
      });
    const [done, late] = [anEntry(id, { id: 'done' }), anEntry(id, { id: 'late' })];
    await refuse(anEntry(id, { id: 'old', at: 1000, status: 401 }));
    await append(resources, id, [done]);
    await refuse(
      anEntry(id, { id: 'new-1', at: 9000, status: 403 }),
      anEntry(id, { id: 'new-2', at: 9001, status: 403 }),
    );
    await append(resources, id, [late]);
    const list = (filter: AuditFilter, offset = 0, limit = 10) =>
      resources.read(({ audit }) => audit.list(id, filter, { offset, limit }));
    const ids = async (...asked: Parameters<typeof list>) => {
      const { total, data } = await list(...asked);
      return [total, ...data.map((one) => `${one.id} ${one.number}`)];
    };
    const all = [5, 'late 2', 'new-2 0', 'new-1 0', 'done 1', 'old 0'];
    assert.deepEqual(await ids({}), all);
    assert.deepEqual(await ids({}, 1, 2), [5, 'new-2 0', 'new-1 0']);
    assert.deepEqual(await ids({}, 3, 2), [5, 'done 1', 'old 0']);
    assert.deepEqual(await ids({ status: 403 }), [2, 'new-2 0', 'new-1 0']);
    assert.deepEqual(auditStore.verifyChain(await chainOf(resources, id), chainStart), { ok: true });
    const removed = (before: number) => resources.write(id, ({ audit }) => audit.removeRefused(id, before));
    assert.deepEqual([await removed(9000), await removed(9000)], [1, 0]);
    assert.deepEqual(await ids({}), [4, ...all.slice(1, 5)]);
    assert.equal((await chainOf(resources, id)).length, 2);
  });

  test('the end of the chain is known by itself, and is that of the last entry', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    const head = (of: string) => resources.read(({ audit }) => audit.head(of));
    assert.deepEqual(await head(id), chainStart);
    assert.deepEqual(await head(`${id}-not`), chainStart);
    await append(resources, id, [anEntry(id), anEntry(id)]);
    const { number, hash } = (await chainOf(resources, id))[1] ?? {};
    assert.deepEqual(await head(id), { number, hash });
    await resources.write(id, (writer) => writer.apiKeys.insert(aKey(id)));
    assert.deepEqual(await head(id), { number, hash });
    await append(resources, id, [anEntry(id)]);
    assert.equal((await head(id)).number, 3);
  });

  test('a chain is verified part by part, to its end', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    const verify = (after: number) => resources.read(({ audit }) => audit.verify(id, after));
    assert.deepEqual(await verify(0), { verified: 0, end: 0, fault: undefined });
    await append(
      resources,
      id,
      Array.from({ length: 3 }, () => anEntry(id)),
    );
    for (const after of [0, 1, 3])
      assert.deepEqual(await verify(after), { verified: 3, end: 3, fault: undefined });
    assert.match((await verify(4)).fault ?? '', /record 4/);
  });

  test('an entry that its caller filled with too much or with unusable text is recorded all the same', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    const long = '𝄞'.repeat(5000);
    const given: Partial<AuditEntry> = {
      actorName: long,
      requestId: long,
      resourceId: long,
      clientIp: long,
      method: long,
      uri: long,
      actorId: 'a\0b',
      details: '{"half":"\ud800","nul":"\0"}',
      at: 1_700_000_000_000.75,
    };
    await append(resources, id, [anEntry(id, given), anEntry(id)]);
    const chain = await chainOf(resources, id);
    assert.deepEqual(auditStore.verifyChain(chain, chainStart), { ok: true });
    const [first] = chain;
    assert.ok(first !== undefined);
    assert.equal(first.uri, long);
    assert.equal(first.actorId, 'a\ufffdb');
    assert.equal(first.details, '{"half":"\ufffd","nul":"\ufffd"}');
    assert.equal(first.at, 1_700_000_000_000);
    assert.equal(first.method.length, 255);
    const found = await resources.read(({ audit }) => audit.list(id, { uri: long }, { offset: 0, limit: 1 }));
    assert.equal(found.total, 1);
  });

  test('an entry with details above 16 KiB is refused', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    await append(resources, id, [anEntry(id, { details: 'x'.repeat(16_384) })]);
    await assert.rejects(append(resources, id, [anEntry(id, { details: 'x'.repeat(16_385) })]));
    assert.equal((await chainOf(resources, id)).length, 1);
  });

  test('every filter finds what it asks for and nothing else', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    const at = 1_750_000_000_000;
    const different: Partial<AuditEntry> = {
      action: 'delete',
      resourceType: 'api_keys',
      resourceId: 'other',
      actorId: 'other',
      workspaceId: 'other',
      method: 'DELETE',
      uri: '/v1/other',
      requestId: 'other',
      status: 403,
      clientIp: '2001:db8::1',
    };
    const fields = Object.keys(different) as (keyof typeof different & keyof AuditFilter)[];
    const entries = fields.map((field, index) => anEntry(id, { at: at + index, [field]: different[field] }));
    await append(resources, id, entries);
    const cases: readonly { filter: AuditFilter; found: readonly number[] }[] = [
      ...fields.map((field, index) => ({ filter: { [field]: different[field] }, found: [index + 1] })),
      { filter: { resourceType: ['other', 'api_keys'] }, found: [2] },
      { filter: { resourceType: [] }, found: [] },
      { filter: { from: at + 2, to: at + 4 }, found: [5, 4, 3] },
      { filter: { from: at + 7 }, found: [10, 9, 8] },
      { filter: { to: at + 1 }, found: [2, 1] },
      { filter: { action: 'create', to: at + 1 }, found: [2] },
      { filter: { action: 'nothing' }, found: [] },
      { filter: { actorType: 'api_key', from: at + 7 }, found: [10, 9, 8] },
      { filter: { actorType: 'user' }, found: [] },
      { filter: { status: undefined }, found: [10, 9, 8, 7, 6, 5, 4, 3, 2, 1] },
    ];
    for (const { filter, found } of cases) {
      const { total, data } = await resources.read(({ audit }) =>
        audit.list(id, filter, { offset: 0, limit: 100 }),
      );
      assert.deepEqual(
        data.map(({ number }) => number),
        found,
        JSON.stringify(filter),
      );
      assert.equal(total, found.length);
    }
  });
}

async function append(resources: Resources, id: string, entries: readonly AuditEntry[]): Promise<void> {
  await resources.write(id, async (writer) => {
    for (const entry of entries) await writer.audit.append(entry);
  });
}

function chainOf(resources: Resources, id: string): Promise<readonly AuditRecord[]> {
  return resources.read(({ audit }) => audit.chain(id, 0));
}
