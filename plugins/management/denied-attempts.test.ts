import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readFeatures } from '../../core/access/read-features.ts';
import { RecordingMetrics } from '../../core/lifecycle/recording-services.test-support.ts';
import { callerKey, matchedRoute } from '../../core/pipeline/keys.ts';
import { defineRoute, Type } from '../../core/pipeline/plugin.ts';
import type { AuditEntry, Resources, ResourcesWriter } from '../../core/ports/resources.ts';
import { TestContext, testKey, testOutcome, testScope } from '../../tests/kit/plugin-kit.ts';
import { DeniedAttempts } from './denied-attempts.ts';
import management from './index.ts';

const route = defineRoute({
  ...{ id: 'things.change', method: 'PUT', path: '/things', summary: '', scope: 'x.y', audit: 'update' },
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
      const audit = { append: (entry: AuditEntry) => Promise.resolve(void entries.push(entry)) };
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
  return {
    ...{ written, clock, state },
    dropped: () => metrics.values.get('weir_audit_denied_dropped_total') ?? 0,
    attempt(status: number, organisationId = 'org-1', times = 1, isRoute = true) {
      for (let count = 0; count < times; count++) {
        const context = new TestContext({ key: testKey({ organisationId }) });
        context.facts.organisationId = organisationId;
        if (isRoute) context.set(matchedRoute, route);
        assert.ok(context.get(callerKey));
        denied.settled(context, testOutcome({ status }));
      }
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

  test('go in one batch per organisation, ten a second of each', async () => {
    const { attempt, tick, written, dropped, clock } = begin();
    attempt(403, 'one', 12);
    attempt(403, 'two', 3);
    await tick();
    assert.deepEqual(
      written.map((batch) => batch.length),
      [10, 3],
    );
    assert.equal(dropped(), 2);
    clock.advance(1000);
    attempt(403, 'one', 1);
    await tick();
    assert.equal(written.length, 3);
  });

  test('wait while the store is away, a thousand of them, and are written once', async () => {
    const { attempt, tick, written, dropped, clock, state } = begin();
    state.isAway = true;
    for (let second = 0; second < 110; second++) {
      attempt(403, 'one', 10);
      clock.advance(1000);
      await tick();
    }
    assert.deepEqual([written.length, dropped()], [0, 100]);
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
