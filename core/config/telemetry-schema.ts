import { Type } from 'typebox';
import { section, strict } from './schema-object.ts';

const Otlp = Type.Object(
  {
    url: Type.Optional(
      Type.String({
        pattern: '^https?://[^\\s/?#@]+(/[^\\s?#]*)?$',
        'x-expected': 'an address without user or query, such as "https://collector.example.com:4318"',
        maxLength: 2048,
        description:
          'Collector that takes OTLP over HTTP; `/v1/traces` is appended unless it ends so. Default: the variables OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT; without any of them nothing is sent.',
      }),
    ),
    headers: Type.Optional(
      Type.Record(Type.String({ pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", maxLength: 255 }), Type.String(), {
        maxProperties: 64,
        'x-expected': 'header names with their values',
        description:
          'Sent to the collector, for its credential: `authorization: "Bearer ${COLLECTOR_TOKEN}"`. Default: OTEL_EXPORTER_OTLP_TRACES_HEADERS or OTEL_EXPORTER_OTLP_HEADERS.',
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
          'Share of the traces that begin here and are sent. A request with a `traceparent` is sent exactly when that says that it is sampled.',
      }),
    ),
    content: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Whether spans hold what was asked and answered, and error messages. Without it no message ever leaves by this way.',
      }),
    ),
    timeout_ms: Type.Optional(
      Type.Integer({
        default: 10000,
        minimum: 100,
        maximum: 120000,
        description: 'Longest time that one batch may take the collector.',
      }),
    ),
    queue: Type.Optional(
      Type.Integer({
        default: 4096,
        minimum: 1,
        maximum: 65536,
        description: 'Most spans that wait in memory, 32 MiB at most; further ones are dropped and counted.',
      }),
    ),
  },
  { ...strict, description: 'Where spans of requests are sent, in the OpenTelemetry protocol.' },
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
            'Further labels of the metrics of requests: `model`, `config`, `api_key_name`, `metadata.<key>`. Each multiplies the series. Changes need a restart.',
        },
      ),
    ),
    max_label_values: Type.Optional(
      Type.Integer({
        default: 50,
        minimum: 1,
        maximum: 1000,
        description: 'Values of each further label that are told apart; the rest is counted as `other`.',
      }),
    ),
  },
  { ...section, description: 'What `/metrics` tells of requests.' },
);

/** `telemetry:` of the file. */
export const Telemetry = Type.Object(
  {
    propagate: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Whether providers are told the trace that a request belongs to: `traceparent` with the span of the gateway as the parent, `tracestate` and `baggage` as they came. Without it the three stay here, unless `forward-headers` names them.',
      }),
    ),
    otlp: Type.Optional(Otlp),
    metrics: Type.Optional(MetricSettings),
  },
  {
    ...section,
    description: 'Traces and metrics for other systems. [telemetry.md](telemetry.md) explains them.',
  },
);
