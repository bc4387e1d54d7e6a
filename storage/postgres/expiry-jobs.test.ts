import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { defineExpiryJobs } from '../../core/administration/jobs/expiry-jobs.ts';
import { sha256 } from '../../core/base/sha256.ts';
import type { JobDefinition } from '../../core/ports/jobs.ts';
import { aKey, anOrganisation } from '../../tests/conformance/resources-records.ts';
import { openTestResources } from '../../tests/kit/administration-kit.ts';
import { testClock } from '../embedded/chdb-fixture.ts';

describe('jobs that look after what ends, on the embedded store', () => {
  test('mark keys, drop replaced secrets, and write nothing the second time', async (t) => {
    const resources = await openTestResources({ after: (close) => t.after(close) });
    const organisation = anOrganisation();
    const { id: organisationId } = organisation;
    const now = Date.now();
    const hash = (text: string): string => sha256(text, 'base64');
    await resources.write(organisationId, async ({ organisations, apiKeys }) => {
      await organisations.ensure(organisation);
      await apiKeys.insert(aKey(organisationId, { id: `ended-${organisationId}`, expiresAt: now - 1 }));
      await apiKeys.insert(
        aKey(organisationId, {
          id: `rotated-${organisationId}`,
          expiresAt: undefined,
          secrets: [
            { hash: hash(`new ${organisationId}`), expiresAt: undefined },
            { hash: hash(`old ${organisationId}`), expiresAt: now - 1 },
          ],
        }),
      );
      await apiKeys.insert(
        aKey(organisationId, { id: `alive-${organisationId}`, expiresAt: now + 3_600_000 }),
      );
    });
    const definitions = new Map<string, JobDefinition<unknown>>();
    defineExpiryJobs(
      {
        define: (definition) => void definitions.set(definition.name, definition),
        repeat: () => undefined,
      },
      { resources, clock: testClock, features: { isOn: () => true } },
    );
    const run = async () => {
      for (const { handle } of definitions.values())
        await handle({ id: 'run', data: {}, attempt: 1, signal: new AbortController().signal });
      return (await resources.changes()).get(organisationId);
    };
    const changes = await run();
    const found = await resources.read(async ({ apiKeys, audit }) => ({
      keys: (await apiKeys.list(organisationId, {}, { offset: 0, limit: 10 })).data,
      entries: (await audit.list(organisationId, {}, { offset: 0, limit: 10 })).data,
    }));
    assert.deepEqual(
      new Map(found.keys.map(({ id, status, secrets }) => [id.split('-')[0], [status, secrets.length]])),
      new Map([
        ['ended', ['expired', 1]],
        ['rotated', ['active', 1]],
        ['alive', ['active', 1]],
      ]),
    );
    const [entry] = found.entries;
    assert.equal(found.entries.length, 1);
    assert.deepEqual([entry?.actorType, entry?.actorId, entry?.action], ['system', 'keys.expire', 'expire']);
    const { ids } = JSON.parse(entry?.details ?? '{}') as { ids: string[] };
    assert.deepEqual(ids.sort(), [`ended-${organisationId}`, `rotated-${organisationId}`]);
    assert.equal(await run(), changes, 'nothing is due any more: no change is counted');
  });
});
