import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Analytics } from '../../core/ports/analytics.ts';

/**
 * The analytics store of `storage.analytics.url: "none:"`: rows stay in the journal, and queries fail with the reason.
 */
export function createNoAnalytics(): Analytics {
  const refuse = (): Promise<never> =>
    Promise.reject(
      new GatewayError(
        'store_unavailable',
        'There is no analytics store: storage.analytics.url is "none:". Set it to "chdb:" to query logs.',
      ),
    );
  return {
    insert: refuse,
    storedIds: refuse,
    costsByDay: refuse,
    countedUsage: refuse,
    repricing: refuse,
    groups: refuse,
    series: refuse,
    feedbackSeries: refuse,
    feedback: refuse,
    logs: refuse,
    countLogs: refuse,
    newLogs: refuse,
    trace: refuse,
    traces: refuse,
    requestById: refuse,
    feedbackById: refuse,
    ping: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
}
