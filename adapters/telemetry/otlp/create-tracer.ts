import { randomUUID } from 'node:crypto';
import { keepsBodies, logRedaction, matchedRoute } from '../../../core/pipeline/keys.ts';
import type { Clock } from '../../../core/ports/clock.ts';
import type { Log } from '../../../core/ports/log.ts';
import type { Metrics } from '../../../core/ports/metrics.ts';
import type { RequestTracer } from '../../../core/pipeline/context.ts';
import { isSampled, type OtlpSettings, spanContextOf } from '../../../core/base/trace-context.ts';
import type { Directory } from '../../../core/ports/directory.ts';
import { Collector } from './collector.ts';
import { redactedContent, spanContent } from './content.ts';
import { requestSpans } from './request-spans.ts';
import type { SpanContent } from './settled-request.ts';
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

/** Most requests whose bodies are redacted at a time; spans of further ones go without them. */
const mostRedactions = 64;
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
  const redactions = new Set<Promise<void>>();
  return {
    settled(context, outcome, acceptedAt) {
      if (context.get(matchedRoute) !== undefined) return;
      const ids = spanContextOf(context.facts, context.id);
      if (!isSampled(context.facts, ids.traceId, settings)) return;
      const redaction = context.get(logRedaction);
      const add = (content?: SpanContent): void =>
        exporter.add(requestSpans({ context, outcome, acceptedAt, ids, content, redaction }));
      const failed = (error: unknown): void =>
        log.error('A span could not be made', { request_id: context.id, error });
      try {
        if (!settings.content || !keepsBodies(directory, context, outcome)) return add();
        if (redaction === undefined) return add(spanContent(context, outcome));
        if (redactions.size >= mostRedactions) return add();
        const work = redactedContent(context, outcome, redaction, clock).then(add).catch(failed);
        redactions.add(work);
        void work.then(() => redactions.delete(work));
      } catch (error) {
        failed(error);
      }
    },
    async close(deadlineMs) {
      await Promise.all(redactions);
      await exporter.close(deadlineMs);
      await collector.close();
    },
  };
}
