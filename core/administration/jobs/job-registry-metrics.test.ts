import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RecordingMetrics } from '../../lifecycle/recording-services.test-support.ts';
import { settle } from '../../../tests/conformance/manual-clock.ts';
import { reportJobs } from './job-registry.ts';

test('jobs are counted at a scrape, one question at a time, and a store that is away changes nothing', async () => {
  const metrics = new RecordingMetrics();
  let asked = 0;
  let answer: () => Promise<{ waiting: number; running: number; failed: number }> = () =>
    Promise.resolve({ waiting: 3, running: 2, failed: 1 });
  reportJobs(metrics, {
    counts() {
      asked += 1;
      return answer();
    },
  });
  const scrape = async () => {
    for (const collect of metrics.scrapes) collect();
    await settle();
  };
  const shown = () => ['waiting', 'running', 'failed'].map((name) => metrics.values.get(`weir_jobs_${name}`));
  await scrape();
  assert.deepEqual(shown(), [3, 2, 1]);
  answer = () => Promise.reject(new Error('away'));
  await scrape();
  assert.deepEqual(shown(), [3, 2, 1]);
  answer = () => new Promise(() => undefined);
  await scrape();
  await scrape();
  assert.equal(asked, 3);
});
