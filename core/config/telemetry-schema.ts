import { Type } from 'typebox';
import { section, strict } from './describe-schema.ts';

const Otlp = Type.Object(
  {
    url: Type.Optional(
      Type.String({
        pattern: '^https?://[^\\s/?#@]+(/[^\\s?#]*)?$',
        'x-expected': 'an address without user or query, such as "https://collector.example.com:4318"',
        maxLength: 2048,
        description:
          'Collector that takes OTLP over HTTP; `/v1/traces` is appended unless the URL ends with it. Default: the variables OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT; without any of them no spans are sent.',
      }),
    ),
    headers: Type.Optional(
      Type.Record(Type.String({ pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", maxLength: 255 }), Type.String(), {
        maxProperties: 64,
        'x-expected': 'header names with their values',
        description:
          'Headers of each export to the collector, such as its credential: `authorization: "Bearer ${COLLECTOR_TOKEN}"`. Default: OTEL_EXPORTER_OTLP_TRACES_HEADERS or OTEL_EXPORTER_OTLP_HEADERS.',
      }),
    ),
    service_name: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 255,
        description: '`service.name` of the spans. Default: OTEL_SERVICE_NAME, else `weir`.',
      }),
    ),
    sample_ratio: Type.Optional(
      Type.Number({
        default: 1,
        minimum: 0,
        maximum: 1,
        description:
          'Share of the traces that begin here and are exported. A request with a `traceparent` follows the sampled flag of that header.',
      }),
    ),
    content: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Whether spans contain the messages of requests and answers, and error messages. If false, spans contain none of them.',
      }),
    ),
    timeout_ms: Type.Optional(
      Type.Integer({
        default: 10000,
        minimum: 100,
        maximum: 120000,
        description: 'Longest time for the collector to take one batch.',
      }),
    ),
    queue: Type.Optional(
      Type.Integer({
        default: 4096,
        minimum: 1,
        maximum: 65536,
        description:
          'Most spans that wait in memory, in total at most 32 MiB; further ones are dropped and counted.',
      }),
    ),
  },
  { ...strict, description: 'Export of spans of requests over the OpenTelemetry protocol.' },
);

const MetricSettings = Type.Object(
  {
    labels: Type.Optional(
      Type.Array(
        Type.String({
          pattern: '^(model|config|api_key_name|metadata\\.[A-Za-z0-9_.-]{1,64})$',
          'x-expected': '"model", "config", "api_key_name" or "metadata.<key>"',
        }),
        {
          default: [],
          maxItems: 8,
          uniqueItems: true,
          description:
            'Additional labels of the metrics of requests: `model`, `config`, `api_key_name`, `metadata.<key>`. Each multiplies the series. Changes need a restart.',
        },
      ),
    ),
    max_label_values: Type.Optional(
      Type.Integer({
        default: 50,
        minimum: 1,
        maximum: 1000,
        description: 'Most distinct values of each additional label; further ones are counted as `other`.',
      }),
    ),
  },
  { ...section, description: 'Metrics of requests at `/metrics`.' },
);

/** `telemetry:` of the file. */
export const Telemetry = Type.Object(
  {
    propagate: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Whether the gateway propagates the trace of a request to providers: `traceparent` with the span of the gateway as the parent, `tracestate` and `baggage` as received. If false, none of the three is forwarded, unless `forward-headers` names it.',
      }),
    ),
    otlp: Type.Optional(Otlp),
    metrics: Type.Optional(MetricSettings),
  },
  {
    ...section,
    description: 'Traces and metrics for monitoring systems. [telemetry.md](telemetry.md) explains them.',
  },
);
