import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ManualClock } from '../../../tests/conformance/manual-clock.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { JobDefinition, RepeatedJob } from '../../ports/jobs.ts';
import type { AuditEntry, Resources, ResourcesWriter } from '../../ports/resources.ts';
import { JobRegistry } from './job-registry.ts';
import { recordingLog } from '../../lifecycle/recording-services.test-support.ts';
import { defineExpiryJobs, defineRefusedAttemptsJob } from './expiry-jobs.ts';

/** Organisations with so many things due, page by page. */
function place(due: Readonly<Record<string, readonly number[] | Error>>, { audits = true } = {}) {
  const written: string[] = [];
  const entries: AuditEntry[] = [];
  const clock = new ManualClock();
  const left = new Map(
    Object.entries(due).map(([id, pages]) => [id, pages instanceof Error ? pages : [...pages]]),
  );
  const take = (id: string, now: number): number => {
    assert.equal(now, clock.now());
    const pages = left.get(id);
    if (pages instanceof Error) throw pages;
    return pages?.shift() ?? 0;
  };
  const writer: Partial<ResourcesWriter> = {
    apiKeys: {
      expireDue: (id: string, now: number) =>
        Promise.resolve(Array.from({ length: take(id, now) }, (_, n) => `key-${n}`)),
    } as unknown as ResourcesWriter['apiKeys'],
    invites: {
      expireDue: (id: string, now: number) => Promise.resolve(take(id, now)),
    } as unknown as ResourcesWriter['invites'],
    audit: {
      append: (entry: AuditEntry) => Promise.resolve(void entries.push(entry)),
    } as ResourcesWriter['audit'],
  };
  const organisations = [...left.keys()].map((id) => ({ id, name: id, createdAt: 0 }));
  const resources = {
    read: (work: (reader: unknown) => unknown) =>
      work({ organisations: { list: () => Promise.resolve(organisations) } }),
    async write(id: string, work: (given: ResourcesWriter) => Promise<unknown>) {
      written.push(id);
      return work(writer as ResourcesWriter);
    },
  } as unknown as Resources;
  const definitions = new Map<string, JobDefinition<unknown>>();
  const repeated: RepeatedJob[] = [];
  defineExpiryJobs(
    {
      define: (definition) => void definitions.set(definition.name, definition),
      repeat: (job) => void repeated.push(job),
    },
    { resources, clock, features: { isOn: (feature) => feature !== 'audit_logs' || audits } },
  );
  const run = async (name: string, signal = new AbortController().signal): Promise<void> =>
    definitions.get(name)?.handle({ id: 'run-1', data: {}, attempt: 1, signal });
  return { written, entries, repeated, clock, run };
}

describe('jobs that look after what ends', () => {
  test('wait for the next minute while the store is away, and fail when something else is wrong', async () => {
    const away = new GatewayError('store_unavailable', 'away');
    for (const [error, outcome] of [
      [away, 'fulfilled'],
      [new Error('odd'), 'rejected'],
    ] as const) {
      const runs: Promise<void>[] = [];
      const resources = { read: () => Promise.reject(error) } as unknown as Resources;
      const jobs = {
        define({ handle }: JobDefinition<never>) {
          const { signal } = new AbortController();
          runs.push(handle({ id: 'run-1', data: {} as never, attempt: 1, signal }));
        },
        repeat: () => undefined,
      };
      defineExpiryJobs(jobs, { resources, clock: new ManualClock(), features: { isOn: () => true } });
      const settled = await Promise.allSettled(runs);
      assert.deepEqual(
        settled.map(({ status }) => status),
        [outcome, outcome, outcome],
      );
    }
  });

  test('come once a minute', () => {
    assert.deepEqual(place({}).repeated, [
      { name: 'keys.expire', everyMs: 60_000 },
      { name: 'invites.expire', everyMs: 60_000 },
      { name: 'keys.rotate', everyMs: 60_000 },
    ]);
  });

  test('write down each key that they change, and nothing where nothing is due', async () => {
    const { run, entries, clock } = place({ 'org-1': [2], 'org-2': [], 'org-3': [1] });
    await run('keys.expire');
    const { id, ...first } = entries[0] as AuditEntry;
    assert.match(id, /^[0-9a-f-]{36}$/);
    assert.deepEqual(first, {
      organisationId: 'org-1',
      workspaceId: '',
      at: clock.now(),
      actorType: 'system',
      actorId: 'keys.expire',
      actorName: 'keys.expire',
      action: 'expire',
      resourceType: 'api_keys',
      resourceId: '',
      method: '',
      uri: '',
      requestId: 'run-1',
      status: 200,
      clientIp: '',
      details: '{"ids":["key-0","key-1"]}',
    });
    assert.deepEqual(
      entries.map(({ organisationId, resourceId }) => [organisationId, resourceId]),
      [
        ['org-1', ''],
        ['org-3', 'key-0'],
      ],
    );
  });

  test('go on while full pages come, in entries within their bound', async () => {
    const { run, written, entries } = place({ 'org-1': [1000, 1000, 5] });
    await run('keys.expire');
    assert.deepEqual(written, ['org-1', 'org-1', 'org-1']);
    const ids = entries.flatMap(({ details }) => (JSON.parse(details) as { ids: string[] }).ids);
    assert.equal(ids.length, 2005);
    for (const { details } of entries) assert.ok(Buffer.byteLength(details) * 4 <= 16_384);
  });

  test('mark invites, and say how many', async () => {
    const { run, entries } = place({ 'org-1': [3], 'org-2': [0] });
    await run('invites.expire');
    assert.deepEqual(
      entries.map(({ organisationId, resourceType, actorId, details }) => [
        organisationId,
        resourceType,
        actorId,
        details,
      ]),
      [['org-1', 'invites', 'invites.expire', '{"count":3}']],
    );
  });

  test('audit nothing when the audit trail is switched off', async () => {
    const { run, written, entries } = place({ 'org-1': [2] }, { audits: false });
    await run('keys.expire');
    assert.deepEqual([written, entries], [['org-1'], []]);
  });

  test('serve the others when one organisation cannot be served, and fail then', async () => {
    const { run, written } = place({ 'org-1': new Error('locked'), 'org-2': [] });
    await assert.rejects(run('keys.expire'), /^Error: 1 organisations could not be served: locked$/);
    assert.deepEqual(written, ['org-1', 'org-2']);
  });

  test('stop between two transactions when they are told to', async () => {
    const { run, written } = place({ 'org-1': [] });
    await assert.rejects(run('keys.expire', AbortSignal.abort(new Error('the end'))), /the end/);
    assert.deepEqual(written, []);
  });
});

test('refused attempts are removed every hour once they are older than the setting says, page by page', async () => {
  const clock = new ManualClock();
  const asked: (readonly [string, number])[] = [];
  const left = [1000, 400, 0];
  const removeRefused = (id: string, before: number) => {
    asked.push([id, before]);
    return Promise.resolve(left.shift() ?? 0);
  };
  const organisations = { list: () => Promise.resolve([{ id: 'one' }, { id: 'two' }]) };
  const resources = {
    read: (work: (reader: unknown) => unknown) => work({ organisations }),
    write: (_: string, work: (writer: unknown) => unknown) => work({ audit: { removeRefused } }),
  } as unknown as Resources;
  const definitions: JobDefinition<unknown>[] = [];
  const repeated: RepeatedJob[] = [];
  // A gateway does not start with a job that its registry does not take.
  const registry = new JobRegistry({ clock, log: recordingLog([]) });
  const jobs = {
    define: (definition: JobDefinition<never>) => {
      registry.define(definition);
      definitions.push(definition);
    },
    repeat: (job: RepeatedJob) => void repeated.push(job),
  };
  defineRefusedAttemptsJob(jobs, { resources, clock, days: 0 });
  assert.equal(definitions.length, 0);
  defineRefusedAttemptsJob(jobs, { resources, clock, days: 30 });
  const signal = new AbortController().signal;
  await definitions[0]?.handle({ id: 'run', data: {}, attempt: 1, signal });
  const before = clock.now() - 30 * 86_400_000;
  assert.deepEqual(asked, [
    ['one', before],
    ['one', before],
    ['two', before],
  ]);
  assert.deepEqual(repeated, [{ name: 'attempts.remove', everyMs: 3_600_000 }]);
});
