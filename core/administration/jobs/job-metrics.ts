import type { Jobs } from '../../ports/jobs.ts';
import type { Metrics } from '../../ports/metrics.ts';

const shown = {
  waiting: 'Jobs that wait for their time or for another attempt, those that repeat included.',
  running: 'Jobs that are being run, by all gateways that share them.',
  failed: 'The last jobs that were given up, up to 1,000.',
} as const;

/**
 * Shows `weir_jobs_waiting`, `weir_jobs_running` and `weir_jobs_failed` at every scrape. The store is asked meanwhile,
 * and its answer shown at the next one; while it is away the last one stands.
 */
export function reportJobs(metrics: Metrics, jobs: Pick<Jobs, 'counts'>): void {
  const gauge = (name: keyof typeof shown) =>
    metrics.gauge({ name: `weir_jobs_${name}`, help: shown[name], labels: [] })({});
  const gauges = { waiting: gauge('waiting'), running: gauge('running'), failed: gauge('failed') };
  let asking = false;
  const ask = async (): Promise<void> => {
    if (asking) return;
    asking = true;
    try {
      const counts = await jobs.counts();
      gauges.waiting.set(counts.waiting);
      gauges.running.set(counts.running);
      gauges.failed.set(counts.failed);
    } catch {
      // The store's own metrics and log tell that it is away.
    } finally {
      asking = false;
    }
  };
  metrics.onScrape(() => void ask());
}
