import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readFeatures } from '../../core/access/features.ts';
import { RecordingMetrics } from '../../core/lifecycle/recording-services.test-support.ts';
import { callerKey, matchedRoute } from '../../core/pipeline/keys.ts';
import { defineRoute, Type } from '../../core/pipeline/plugin.ts';
import type { AuditEntry, Resources, ResourcesWriter } from '../../core/ports/resources.ts';
import { TestContext, testKey, testOutcome, testScope } from '../../tests/kit/plugin-kit.ts';
import { DeniedAttempts } from './audit-logs.ts';
import management from './index.ts';

const route = defineRoute({
  id: 'things.change',
  method: 'PUT',
  path: '/things',
  summary: '',
  scope: 'x.y',
  audit: 'update',
  reply: Type.Object({}),
  handle: () => ({}),
});

/** Denied attempts over a store that can be away; `tick` is the moment of a batch. */
function begin() {
  const written: AuditEntry[][] = [];
  const metrics = new RecordingMetrics();
  const state = { isAway: false };
  const resources: Pick<Resources, 'write'> = {
    async write(_, work) {
      if (state.isAway) throw new Error('away');
      const entries: AuditEntry[] = [];
      const audit = { appendRefused: (entry: AuditEntry) => Promise.resolve(void entries.push(entry)) };
      const result = await work({ audit } as unknown as ResourcesWriter);
      written.push(entries);
      return result;
    },
  };
  let tick: () => unknown = () => undefined;
  let dispose: () => unknown = () => undefined;
  const { scope, clock } = testScope({
    metrics,
    setInterval: (run) => {
      tick = run;
      return () => undefined;
    },
    onDispose: (run) => (dispose = run),
  });
  const denied = new DeniedAttempts(scope, resources as Resources);
  const headers = Object.fromEntries(
    Array.from({ length: 12 }, (_, n) => [`x-filling-${n}`, 'y'.repeat(1000)]),
  );
  const somebody = new TestContext({ headers, path: `/things/${'z'.repeat(1000)}` });
  somebody.set(matchedRoute, route);
  return {
    written,
    clock,
    state,
    dropped: () => metrics.values.get('weir_audit_denied_dropped_total') ?? 0,
    attempt(status: number, organisationId = 'org-1', times = 1, isRoute = true) {
      const context = new TestContext({ key: testKey({ organisationId }) });
      context.facts.organisationId = organisationId;
      if (isRoute) context.set(matchedRoute, route);
      assert.ok(context.get(callerKey));
      for (let count = 0; count < times; count++) denied.settled(context, testOutcome({ status }));
    },
    /** Somebody unknown, with as much in the request as it may have. */
    stranger(remoteAddress: string, times = 1) {
      Object.assign(somebody, { remoteAddress });
      for (let count = 0; count < times; count++) denied.settled(somebody, testOutcome({ status: 401 }));
    },
    tick: async () => tick(),
    dispose: async () => dispose(),
  };
}

describe('refused attempts', () => {
  test('are those with 401 and 403, at administration', async () => {
    const { attempt, tick, written } = begin();
    for (const status of [200, 400, 401, 403, 404, 500]) attempt(status);
    attempt(403, 'org-1', 1, false);
    await tick();
    assert.deepEqual(
      written.map((batch) => batch.map(({ status }) => status)),
      [[401, 403]],
    );
  });

  test('that are alike become one entry, and after an hour one that counts the others', async () => {
    const { attempt, tick, written, clock } = begin();
    attempt(403, 'one', 1200);
    attempt(403, 'two', 3);
    await tick();
    assert.deepEqual(
      written.map((batch) => batch.length),
      [1, 1],
    );
    clock.advance(3_600_000);
    attempt(403, 'one', 1);
    await tick();
    const [, , ofOne, ofTwo] = written;
    const [counted, next] = [ofOne ?? [], ofTwo ?? []].map(
      (batch) => JSON.parse(batch.at(-1)?.details ?? '{}') as { repeats?: number; error?: object },
    );
    assert.deepEqual([counted?.repeats, next?.repeats], [1200, 2]);
    assert.match(JSON.stringify(counted?.error), /1200 attempts like this one were refused since 2026-/);
  });

  test('of a flood are few and small, however many callers, paths and headers it has', async () => {
    const { stranger, attempt, tick, dispose, written, clock } = begin();
    const day = 86_400_000;
    for (let at = 0; at < day; at += day / 480) {
      for (let n = 0; n < 60; n++) stranger(`2001:db8:${(at / 180_000).toString(16)}:${n}::1`);
      stranger('203.0.113.9', 20);
      attempt(403, 'org-1', 20);
      clock.advance(day / 480);
      await tick();
    }
    await dispose();
    const entries = written.flat();
    const bytes = entries.reduce((sum, entry) => sum + Buffer.byteLength(JSON.stringify(entry)), 0);
    // 48,000 attempts of 14 KB each; groups are 200 and one, and each leaves two entries an hour.
    assert.ok(entries.length <= 24 * 402, `${entries.length} entries`);
    assert.ok(bytes / entries.length < 1000, `${bytes / entries.length} bytes an entry`);
    const all = JSON.stringify(entries);
    assert.equal(['x-filling', 'yyyy', 'z'.repeat(257)].filter((one) => all.includes(one)).length, 0);
    const told = entries.reduce((sum, { details }) => {
      const { repeats = 0 } = JSON.parse(details) as { repeats?: number };
      return sum + (repeats === 0 ? 1 : repeats);
    }, 0);
    assert.equal(told, 48_000, 'every attempt is in an entry, by itself or counted');
    const ofOne = entries.filter(({ clientIp }) => clientIp === '203.0.113.9');
    assert.ok(ofOne.length <= 48, `${ofOne.length} entries about one client`);
  });

  test('wait while the store is away, a thousand entries, and are written once', async () => {
    const { stranger, tick, written, dropped, clock, state } = begin();
    state.isAway = true;
    for (let hour = 0; hour < 12; hour++) {
      for (let n = 0; n < 100; n++) stranger(`198.51.${hour}.${n}`);
      clock.advance(3_600_000);
      await tick();
    }
    assert.deepEqual([written.length, dropped()], [0, 200]);
    state.isAway = false;
    await tick();
    await tick();
    assert.deepEqual(
      written.map((batch) => batch.length),
      [1000],
    );
    assert.equal(new Set(written[0]?.map(({ id }) => id)).size, 1000);
  });

  test('are written when the plugin ends, those of the last moment too', async () => {
    const { attempt, tick, dispose, written } = begin();
    attempt(403);
    const batch = tick();
    attempt(401);
    await Promise.all([batch, dispose()]);
    assert.deepEqual(
      written.flat().map(({ status }) => status),
      [403, 401],
    );
  });

  test('are not written down while the audit trail is switched off', async () => {
    const resources = { write: () => Promise.reject(new Error('not to be asked')) };
    const made = async (environment: Record<string, string>) => {
      const { scope } = testScope({
        metrics: new RecordingMetrics(),
        resources: resources as unknown as Resources,
        features: readFeatures(environment),
        setInterval: () => () => undefined,
      });
      return management.create({}, scope);
    };
    assert.equal((await made({ AUDIT_LOGS_ENABLED: 'OFF' })).settled, undefined);
    assert.equal(typeof (await made({})).settled, 'function');
  });
});
