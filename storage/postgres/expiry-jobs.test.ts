import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { defineExpiryJobs } from '../../core/administration/jobs/expiry-jobs.ts';
import { sha256 } from '../../core/base/bytes.ts';
import type { JobDefinition } from '../../core/ports/jobs.ts';
import { aKey, anOrganisation } from '../../tests/conformance/resources-records.ts';
import { openTestResources } from '../../tests/kit/administration-kit.ts';
import { testClock } from '../embedded/chdb-fixture.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Resources } from '../../core/ports/resources.ts';

const hour = 3_600_000;

describe('jobs that look after what ends, on the embedded store', () => {
  test('mark keys, drop replaced secrets, and write nothing the second time', async (t) => {
    const resources = await openTestResources({ after: (close) => t.after(close) });
    const organisation = anOrganisation();
    const { id: organisationId } = organisation;
    const now = Date.now();
    const hash = (text: string): string => sha256(text, 'base64');
    await resources.write(organisationId, async ({ organisations, apiKeys }) => {
      await organisations.ensure(organisation);
      await apiKeys.insert(
        aKey(organisationId, { id: `ended-${organisationId}`, expiresAt: now - 1, rotation: undefined }),
      );
      await apiKeys.insert(
        aKey(organisationId, {
          id: `rotated-${organisationId}`,
          expiresAt: undefined,
          rotation: undefined,
          secrets: [
            { hash: hash(`new ${organisationId}`), expiresAt: undefined },
            { hash: hash(`old ${organisationId}`), expiresAt: now - 1 },
          ],
        }),
      );
      await apiKeys.insert(
        aKey(organisationId, {
          id: `alive-${organisationId}`,
          expiresAt: now + 3_600_000,
          rotation: undefined,
        }),
      );
    });
    const runJobs = jobsOf(resources);
    const run = async () => {
      await runJobs();
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

  test('rotate keys: the secret gets an end, and the next rotation its time', async (t) => {
    const resources = await openTestResources({ after: (close) => t.after(close) });
    const organisation = anOrganisation();
    const { id: organisationId } = organisation;
    const clock = new ManualClock();
    const now = clock.now();
    const policy = { transitionMs: hour };
    const keys = ['every-day', 'once', 'not-asked-for', 'in-transition'].map(
      (name) => `${name} ${organisationId}`,
    );
    const [everyDay = '', once = '', notAskedFor = '', inTransition = ''] = keys;
    const secret = (end?: number) => ({ hash: `${end} ${organisationId}`, expiresAt: end });
    const given = (id: string, more: object) => aKey(organisationId, { id, expiresAt: undefined, ...more });
    await resources.write(organisationId, async ({ organisations, apiKeys }) => {
      await organisations.ensure(organisation);
      await apiKeys.insert(given(everyDay, { rotation: { ...policy, days: 1, nextAt: now } }));
      await apiKeys.insert(given(once, { rotation: { ...policy, nextAt: now - 1 } }));
      await apiKeys.insert(
        given(notAskedFor, { rotation: { ...policy, days: 1, nextAt: now }, secrets: [secret(now - hour)] }),
      );
      await apiKeys.insert(
        given(inTransition, {
          rotation: { ...policy, days: 1, nextAt: now },
          secrets: [secret(), secret(now + hour)],
        }),
      );
    });
    const run = jobsOf(resources, clock);
    const found = async (id: string) => {
      const key = await resources.read(({ apiKeys }) => apiKeys.find(organisationId, id));
      return [key?.secrets.map(({ expiresAt }) => expiresAt), key?.rotation?.nextAt, key?.version];
    };
    await run();
    assert.deepEqual(await found(everyDay), [[now + hour], now + 24 * hour, 2]);
    assert.deepEqual(await found(once), [[now + hour], undefined, 2]);
    assert.deepEqual(await found(notAskedFor), [[now - hour], now + 24 * hour, 2]);
    assert.deepEqual(await found(inTransition), [[undefined, now + hour], now, 1]);
    const { data } = await resources.read(({ audit }) =>
      audit.list(organisationId, {}, { offset: 0, limit: 10 }),
    );
    assert.deepEqual(
      data.map(({ actorId, action, details }) => [actorId, action, JSON.parse(details)]),
      [['keys.rotate', 'rotate', { ids: [once, everyDay] }]],
    );
    await run();
    assert.deepEqual((await found(everyDay))[2], 2, 'once');
    clock.advance(hour);
    await run();
    const [, next, version] = await found(inTransition);
    assert.deepEqual([next, version], [now + 24 * hour, 3], 'when the secret before has ended');
  });
});

/** Runs each of the jobs once. */
function jobsOf(resources: Resources, clock: Clock = testClock): () => Promise<void> {
  const definitions: JobDefinition<unknown>[] = [];
  defineExpiryJobs(
    {
      define: (definition) => void definitions.push(definition),
      repeat: () => undefined,
    },
    { resources, clock, features: { isOn: () => true } },
  );
  return async () => {
    for (const { handle } of definitions)
      await handle({ id: 'run', data: {}, attempt: 1, signal: new AbortController().signal });
  };
}
