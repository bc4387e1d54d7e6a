import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ResourcesReader } from '../../core/ports/resources.ts';
import type { Page, Paged } from '../../core/ports/page.ts';
import type { Subject } from './resources.ts';
import {
  aGroupMapping,
  aKey,
  aMember,
  anEntry,
  anInvite,
  aRecord,
  aUser,
  aWorkspace,
  newOrganisation,
} from './resources-records.ts';

type List = (reader: ResourcesReader, id: string, page: Page) => Promise<Paged<unknown>>;

const lists: Readonly<Record<string, List>> = {
  workspaces: ({ workspaces }, id, page) => workspaces.list(id, {}, page),
  'api keys': ({ apiKeys }, id, page) => apiKeys.list(id, {}, page),
  users: ({ users }, id, page) => users.list(id, {}, page),
  members: ({ members }, id, page) => members.list(id, 'the-workspace', {}, page),
  invites: ({ invites }, id, page) => invites.list(id, {}, page),
  'group mappings': ({ groupMappings }, id, page) => groupMappings.list(id, {}, page),
  records: ({ records }, id, page) => records.list('config', id, {}, page),
  'audit records': ({ audit }, id, page) => audit.list(id, {}, page),
};
const isOldestFirst = (name: string): boolean => name !== 'audit records';
const count = 7;

/** What every implementation promises of all its lists. */
export function listsHavePages(subject: Subject): void {
  /** An organisation with some of everything; several are equally old. */
  async function filled(): Promise<string> {
    const id = await newOrganisation(subject());
    await subject().write(id, async (writer) => {
      for (let index = 0; index < count; index++) {
        const createdAt = 1000 + Math.floor(index / 3);
        const own = { id: `${id}-${(index * 5) % count}`, createdAt };
        const user = aUser(id, own);
        await writer.workspaces.insert(aWorkspace(id, { ...own, slug: `ws-${index}` }));
        await writer.apiKeys.insert(aKey(id, own));
        await writer.users.insert(user);
        await writer.members.insert(aMember(user, { createdAt }));
        await writer.invites.insert(anInvite(id, own));
        await writer.groupMappings.insert(aGroupMapping(id, own));
        await writer.records.insert(aRecord(id, own));
        await writer.audit.append(anEntry(id, { id: own.id, at: createdAt }));
      }
    });
    return id;
  }

  for (const [name, list] of Object.entries(lists)) {
    test(`${name}: pages of any size give everything once, in a fixed order, with the total`, async () => {
      const id = await filled();
      const whole = await subject().read((reader) => list(reader, id, { offset: 0, limit: 100 }));
      assert.equal(whole.total, count);
      assert.equal(whole.data.length, count);
      const ages = whole.data.map(ageOf);
      const expected = [...ages].sort((a, b) => (isOldestFirst(name) ? a - b : b - a));
      assert.deepEqual(ages, expected);
      for (const limit of [1, 2, 3, 4, 6]) {
        const seen: unknown[] = [];
        for (let offset = 0; offset < count + limit; offset += limit) {
          const part = await subject().read((reader) => list(reader, id, { offset, limit }));
          assert.equal(part.total, count);
          assert.ok(part.data.length <= limit);
          seen.push(...part.data);
        }
        assert.deepEqual(seen, whole.data, `pages of ${limit}`);
      }
    });

    test(`${name}: a page of none only counts`, async () => {
      const id = await filled();
      const counted = await subject().read((reader) => list(reader, id, { offset: 0, limit: 0 }));
      assert.deepEqual(counted, { total: count, data: [] });
    });
  }

  for (const page of [
    { offset: 0, limit: -1 },
    { offset: 0, limit: 101 },
    { offset: -1, limit: 10 },
    { offset: 0.5, limit: 10 },
    { offset: 0, limit: NaN },
    { offset: Number.MAX_SAFE_INTEGER + 1, limit: 100 },
  ]) {
    test(`a page of ${page.limit} behind ${page.offset} is refused`, async () => {
      const id = await newOrganisation(subject());
      await subject().read(async (reader) => {
        for (const [name, list] of Object.entries(lists))
          await assert.rejects(list(reader, id, page), { code: 'invalid_request' }, name);
      });
    });
  }
}

function ageOf(row: unknown): number {
  const record = row as { createdAt?: number; at?: number; member?: { createdAt: number } };
  return record.member?.createdAt ?? record.createdAt ?? record.at ?? NaN;
}
