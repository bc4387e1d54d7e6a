import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RequestTracer } from '../pipeline/context.ts';
import type { OtlpSettings } from '../base/trace-context.ts';
import { TestContext, testOutcome } from '../../tests/kit/plugin-kit.ts';
import { TracerInUse } from './generation.ts';

const settings = (url: string): OtlpSettings => ({
  url,
  headers: { a: 'b' },
  service_name: 'weir',
  resource: {},
  content: false,
  sample_ratio: 1,
  timeout_ms: 1,
  queue: 1,
});

function inUse() {
  const events: string[] = [];
  const endings: (() => void)[] = [];
  const tracer = new TracerInUse({
    closeMs: 5,
    create({ url }): RequestTracer {
      events.push(`create ${url}`);
      return {
        settled: (_, outcome, acceptedAt) => void events.push(`${url} ${outcome.status} ${acceptedAt}`),
        close(deadlineMs) {
          events.push(`close ${url} ${deadlineMs}`);
          return new Promise((resolve) => endings.push(resolve));
        },
      };
    },
  });
  const settle = (): void => tracer.settled(new TestContext({}), testOutcome(), 7);
  return { tracer, events, endings, settle };
}

test('a tracer lives as long as its settings, and not longer', async () => {
  const { tracer, events, endings, settle } = inUse();
  settle();
  tracer.use(undefined);
  tracer.use(settings('a'));
  tracer.use(settings('a'));
  settle();
  tracer.use(settings('b'));
  settle();
  tracer.use(undefined);
  settle();
  assert.deepEqual(events, ['create a', 'a 200 7', 'close a 5', 'create b', 'b 200 7', 'close b 5']);
  for (const end of endings) end();
  await tracer.close();
});

test('closing waits for tracers that a reload has retired', async () => {
  const { tracer, events, endings } = inUse();
  tracer.use(settings('a'));
  tracer.use(settings('b'));
  let closed = false;
  const closing = tracer.close().then(() => (closed = true));
  assert.deepEqual(events.slice(-2), ['create b', 'close b 5']);
  endings[1]?.();
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(closed, false);
  endings[0]?.();
  await closing;
  assert.equal(closed, true);
});
