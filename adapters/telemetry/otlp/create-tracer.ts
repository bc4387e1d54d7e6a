import { randomUUID } from 'node:crypto';
import type { Clock } from '../../../core/ports/clock.ts';
import type { Log } from '../../../core/ports/log.ts';
import type { Metrics } from '../../../core/ports/metrics.ts';
import type { RequestTracer } from '../../../core/ports/request-tracer.ts';
import type { OtlpSettings } from '../../../core/ports/telemetry-settings.ts';
import type { Outcome, RequestContext } from '../../../core/pipeline/context.ts';
import { callerKey, matchedRoute } from '../../../core/pipeline/keys.ts';
import type { Directory } from '../../../core/ports/directory.ts';
import { isSampled, spanContextOf } from '../../../core/ports/trace-context.ts';
import { Collector } from './collector.ts';
import { requestSpans } from './request-spans.ts';
import { SpanExporter } from './span-exporter.ts';

/** What tracers share. */
export interface TracerParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** What workspaces say of the bodies of their requests. */
  readonly directory: Pick<Directory, 'settingsIn'>;
  /** At least 0 and below 1; default `Math.random`. */
  readonly random?: () => number;
}

/** `service.instance.id` of this process. */
const instance = randomUUID();

/**
 * Sends a span for each request for a provider whose trace is recorded to the collector that the settings name, and one
 * for each time that a provider was asked. Requests for the administration API are no part of it: a gateway that takes
 * spans from itself would never come to an end.
 */
export function createOtlpTracer(settings: OtlpSettings, parts: TracerParts): RequestTracer {
  const { clock, log, metrics, directory, random = Math.random } = parts;
  const collector = new Collector(settings, clock, instance);
  const exporter = new SpanExporter({
    ...{ queue: settings.queue, clock, log, metrics, random },
    post: (spans) => collector.post(spans),
  });
  return {
    settled(context, outcome, acceptedAt) {
      if (context.get(matchedRoute) !== undefined) return;
      const ids = spanContextOf(context.facts, context.id);
      if (!isSampled(context.facts, ids.traceId, settings)) return;
      try {
        const content = settings.content && mayTell(context, outcome, directory);
        exporter.add(requestSpans({ context, outcome, acceptedAt, ids, content }));
      } catch (error) {
        log.error('A span could not be made', { request_id: context.id, error });
      }
    },
    async close(deadlineMs) {
      await exporter.close(deadlineMs);
      await collector.close();
    },
  };
}

/** What must not stand in the log does not leave by this way either; nor does what strangers said. */
function mayTell(
  context: RequestContext,
  { error }: Outcome,
  directory: Pick<Directory, 'settingsIn'>,
): boolean {
  if (error?.type === 'authentication_error') return false;
  if (context.service('debug')?.toLowerCase() === 'false') return false;
  if (context.get(callerKey)?.defaults?.logBodies === false) return false;
  const { organisationId, workspaceId } = context.facts;
  return directory.settingsIn(organisationId, workspaceId).logging.mode === 'full';
}
