import type { Static } from 'typebox';
import type { OtlpSettings, TelemetrySettings } from '../base/trace-context.ts';
import type { Telemetry } from './telemetry-schema.ts';

/** `telemetry:` as the schema leaves it: what has no default may be missing. */
export type WrittenTelemetry = Static<typeof Telemetry>;

type Environment = Readonly<Record<string, string | undefined>>;

/** The settings as they are used, and what was wrong with the variables that were looked at, as sentences. */
export interface ResolvedTelemetry {
  readonly settings: TelemetrySettings;
  readonly warnings: readonly string[];
}

const signalPath = '/v1/traces';
const none = { labels: [], max_label_values: 50 };

/**
 * Fills in what the file leaves to the variables that OpenTelemetry defines: endpoint and headers (those for traces before
 * those for everything), service name, resource attributes. What a variable says and cannot be used is left out and told.
 */
export function resolveTelemetry(written: WrittenTelemetry, env: Environment): ResolvedTelemetry {
  const warnings: string[] = [];
  const { propagate = false, otlp = {}, metrics = {} } = written;
  const url = otlp.url === undefined ? endpointOf(env, warnings) : withSignalPath(otlp.url);
  return {
    settings: {
      propagate,
      otlp: url === undefined ? undefined : { ...settingsOf(otlp, env, warnings), url },
      metrics: { ...none, ...metrics },
    },
    warnings,
  };
}

function settingsOf(
  otlp: NonNullable<WrittenTelemetry['otlp']>,
  env: Environment,
  warnings: string[],
): Omit<OtlpSettings, 'url'> {
  const resource = pairs(env, ['OTEL_RESOURCE_ATTRIBUTES'], warnings);
  const { 'service.name': named, ...others } = resource;
  return {
    headers:
      otlp.headers ??
      pairs(env, ['OTEL_EXPORTER_OTLP_TRACES_HEADERS', 'OTEL_EXPORTER_OTLP_HEADERS'], warnings),
    service_name: otlp.service_name ?? (env['OTEL_SERVICE_NAME'] || named || 'weir'),
    resource: others,
    sample_ratio: otlp.sample_ratio ?? 1,
    content: otlp.content ?? false,
    timeout_ms: otlp.timeout_ms ?? 10_000,
    queue: otlp.queue ?? 4096,
  };
}

/** Of the variables; undefined when they name none, switch traces off, or name one that cannot be used. */
function endpointOf(env: Environment, warnings: string[]): string | undefined {
  const own = env['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'];
  const name = own ? 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT' : 'OTEL_EXPORTER_OTLP_ENDPOINT';
  const text = env[name];
  if (!text || env['OTEL_SDK_DISABLED'] === 'true' || env['OTEL_TRACES_EXPORTER'] === 'none')
    return undefined;
  const protocol = env['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL'] || env['OTEL_EXPORTER_OTLP_PROTOCOL'];
  if (protocol === 'grpc') {
    warnings.push(
      `no spans are sent to ${name}: its protocol is grpc, and the gateway speaks OTLP over HTTP; set telemetry.otlp.url to the collector's HTTP port (4318 as a rule)`,
    );
    return undefined;
  }
  if (!/^https?:\/\/[^\s/?#@]+(\/[^\s?#]*)?$/.test(text)) {
    warnings.push(
      `no spans are sent: ${name} is no http or https address without user and query; correct it or set telemetry.otlp.url`,
    );
    return undefined;
  }
  // The standard has it that this one is used as it is.
  return own ? text : withSignalPath(text);
}

function withSignalPath(url: string): string {
  const base = url.replace(/\/+$/, '');
  return base.endsWith(signalPath) ? base : base + signalPath;
}

/** `key=value,key=value` of the first variable that is set, values percent-decoded. */
function pairs(env: Environment, names: readonly string[], warnings: string[]): Record<string, string> {
  const name = names.find((one) => env[one]);
  const found: Record<string, string> = {};
  if (name === undefined) return found;
  for (const item of (env[name] as string).split(',')) {
    if (item.trim() === '') continue;
    const at = item.indexOf('=');
    const key = item.slice(0, at).trim();
    const value = decoded(item.slice(at + 1).trim());
    // Never the item itself: it may hold a credential.
    if (at === -1 || value === undefined || !/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(key))
      warnings.push(`a part of ${name} is left out: it is no key=value with a percent-encoded value`);
    else found[key] = value;
  }
  return found;
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
