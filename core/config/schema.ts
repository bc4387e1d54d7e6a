import { canaryRules } from '../organisation/canary-rules.ts';
import type { AnalyticsServerSettings } from '../ports/analytics.ts';
import type { CanaryRules } from '../ports/config-file.ts';
import { type Static, Type } from 'typebox';
import { providerAliasProperties, providerFieldProperties } from '../providers/provider-fields.ts';
import { ProviderRowSchema } from '../providers/provider-row.ts';
import type { ExportSettings } from '../ports/request-row.ts';
import type { ResourcesStoreSettings } from '../ports/resources.ts';
import type { RetentionSettings } from '../access/features.ts';
import type { SecretSources } from '../ports/secret-managers.ts';
import type { TelemetrySettings } from '../base/trace-context.ts';
import { type RouteConfigInput, RouteConfigSchema } from '../organisation/route-config.ts';
import { Organisation, type OrganisationBlock } from '../organisation/organisation-block.ts';
import { Alerts, type AlertSettings } from './alerts-schema.ts';
import { PricesBlock } from './prices-schema.ts';
import type { OwnPrice } from '../ports/prices.ts';
import { Exports, Retention, Storage } from './storage-schema.ts';
import { addressRangePattern, Security } from './security-schema.ts';
import { section, strict } from './describe-schema.ts';
import { Telemetry } from './telemetry-schema.ts';

const { share, duration_s, max_error_rise, max_refusal_rise, max_latency_rise, min_requests } = canaryRules;

/** Section `changes`: how a new configuration is tried. */
const Changes = Type.Object(
  {
    canary: Type.Optional(
      Type.Object(
        {
          share: Type.Optional(Type.Number({ ...share, default: 10 })),
          duration_s: Type.Optional(Type.Integer({ ...duration_s, default: 300 })),
          max_error_rise: Type.Optional(Type.Number({ ...max_error_rise, default: 1 })),
          max_refusal_rise: Type.Optional(Type.Number({ ...max_refusal_rise, default: 1 })),
          max_latency_rise: Type.Optional(Type.Number({ ...max_latency_rise, default: 50 })),
          min_requests: Type.Optional(Type.Integer({ ...min_requests, default: 20 })),
        },
        {
          ...section,
          description:
            'When a canary of `weir apply` is taken back. [safe-change.md](safe-change.md) explains it.',
        },
      ),
    ),
  },
  { ...section, description: 'How changes of this configuration are tried.' },
);

const headerPrefix = {
  pattern: '^[a-z0-9]+(-[a-z0-9]+)*$',
  'x-expected': 'lower-case words joined by hyphens',
};

const Server = Type.Object(
  {
    host: Type.Optional(
      Type.String({
        default: '127.0.0.1',
        description: 'Address to listen on; 0.0.0.0 for every interface.',
      }),
    ),
    port: Type.Optional(
      Type.Integer({
        default: 8787,
        minimum: 0,
        maximum: 65535,
        description: 'Port; 0 picks a free one. `--port` and PORT take precedence.',
      }),
    ),
    base_path: Type.Optional(
      Type.String({
        default: '/v1',
        pattern: '^/([A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*)?$',
        'x-expected': 'a path that begins with "/" and does not end with one, such as "/v1"',
        description: 'Prefix of every API path. The gateway also serves the same paths without it.',
      }),
    ),
    public_url: Type.Optional(
      Type.String({
        default: '',
        pattern: '^(https?://[^\\s/?#]+)?$',
        'x-expected': 'an origin such as "https://gateway.example.com"',
        description:
          'Public URL of this gateway, for the links of invites and exports. Empty: http and the Host header of the request that creates the link.',
      }),
    ),
    header_prefix: Type.Optional(
      Type.String({
        default: 'x-service',
        ...headerPrefix,
        description: 'Prefix of the headers that control the gateway.',
      }),
    ),
    header_aliases: Type.Optional(
      Type.Array(Type.String(headerPrefix), {
        default: ['x-portkey'],
        maxItems: 8,
        description: 'Further prefixes with the same meaning.',
      }),
    ),
    operations: Type.Optional(
      Type.Union([Type.Literal('open'), Type.Literal('loopback'), Type.Literal('key')], {
        default: 'loopback',
        description:
          'Access to /status, /metrics, /openapi.json and /docs: anybody, callers on loopback (others need an owner key), or only an owner key. /healthz and /readyz are always open.',
      }),
    ),
    trusted_proxies: Type.Optional(
      Type.Array(
        Type.String({
          pattern: addressRangePattern,
          'x-expected': 'an address, a range such as "10.0.0.0/8" or "fd00::/8", "loopback" or "private"',
        }),
        {
          default: [],
          maxItems: 1000,
          description:
            'Proxies in front of the gateway: addresses, ranges (`10.0.0.0/8`), `loopback`, `private`. The gateway trusts their `X-Forwarded-For` (or `Forwarded`), so that logs and the audit trail show the address of the client. Default: no proxy is trusted.',
        },
      ),
    ),
    workers: Type.Optional(
      Type.Union([Type.Integer({ minimum: 1, maximum: 256 }), Type.Literal('auto')], {
        default: 1,
        'x-expected': 'a number of processes from 1 to 256, or "auto"',
        description:
          'Number of processes that serve requests on the port, `auto` for one per core. With more than one, a parent process has the stores, the administration and the jobs, and replaces a worker that ends (docs/workers.md). On Node only.',
      }),
    ),
    backlog: Type.Optional(
      Type.Integer({
        default: 4096,
        minimum: 1,
        maximum: 65535,
        description:
          'Connections that the system keeps while the process is busy; it refuses more, or lets them wait for a second attempt. Linux allows as many as `net.core.somaxconn`.',
      }),
    ),
    max_body_bytes: Type.Optional(
      Type.Integer({
        default: 33554432,
        minimum: 1024,
        description:
          'Largest request body that is held in memory; a larger one gets 413. Bodies that no plugin reads are streamed and have no such limit.',
      }),
    ),
    max_body_members: Type.Optional(
      Type.Integer({
        default: 200000,
        minimum: 100,
        description:
          'Most values (object members, objects and lists) in a JSON body that the gateway parses; a body with more gets 413. Parsing many values takes long and delays other requests.',
      }),
    ),
    max_body_depth: Type.Optional(
      Type.Integer({
        default: 128,
        minimum: 8,
        maximum: 1000,
        description: 'Deepest nesting of objects and lists in a JSON body that the gateway parses.',
      }),
    ),
    max_buffered_bytes: Type.Optional(
      Type.Integer({
        default: 536870912,
        minimum: 1048576,
        description:
          'Limit for all request bodies held in memory together; beyond it a request gets 503 with retry-after, before its body is read. A body of 16 KiB or more that is not an upload (multipart, audio, image, video) counts three times, because its parsed form and its outgoing form each take as much memory again. A body still being received counts twice the bytes received, at least 64 KiB. The last sixteenth is reserved for bodies of up to 256 KiB, so that large bodies do not block ordinary requests.',
      }),
    ),
    header_timeout_ms: Type.Optional(
      Type.Integer({
        default: 15000,
        minimum: 100,
        description: 'Longest time for a client to send its headers.',
      }),
    ),
    body_idle_timeout_ms: Type.Optional(
      Type.Integer({
        default: 30000,
        minimum: 100,
        description: 'Longest pause between two pieces of a request body.',
      }),
    ),
    body_min_bytes_per_second: Type.Optional(
      Type.Integer({
        default: 500,
        minimum: 0,
        description:
          'Lowest average rate of a request body that has taken longer than body_idle_timeout_ms; a slower client gets 408. Time in which the provider accepts no data does not count. 0: no limit.',
      }),
    ),
    body_timeout_ms: Type.Optional(
      Type.Integer({
        default: 3600000,
        minimum: 100,
        description:
          'Longest time for a client to send a whole request body. Time in which the provider accepts no data does not count.',
      }),
    ),
    client_stall_timeout_ms: Type.Optional(
      Type.Integer({
        default: 60000,
        minimum: 100,
        description: 'The gateway disconnects a client that accepts no byte for this long.',
      }),
    ),
    keep_alive_timeout_ms: Type.Optional(
      Type.Integer({
        default: 75000,
        minimum: 1000,
        description: 'Time until an idle client connection is closed.',
      }),
    ),
    drain_delay_ms: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 300_000,
        description:
          'Time for which the gateway keeps serving after SIGTERM, with /readyz at 503 and `Connection: close` on every answer, so that load balancers send requests elsewhere before it stops listening. Set it longer than the balancer takes to notice. Default: 5000; 0 on a terminal. WEIR_DRAIN_DELAY_MS takes precedence.',
      }),
    ),
    shutdown_timeout_ms: Type.Optional(
      Type.Integer({
        default: 30000,
        minimum: 0,
        description: 'Longest time for which requests and streams in progress may continue after that.',
      }),
    ),
    watchdog_ms: Type.Optional(
      Type.Integer({
        default: 10000,
        minimum: 0,
        maximum: 3600000,
        description:
          'The watchdog ends the process with a report, for a restart, when the event loop is blocked for this long; otherwise a plugin in an endless loop would block every request forever. 0, or an attached debugger, switches the watchdog off.',
      }),
    ),
  },
  { ...section, description: 'Address, limits and timeouts of the listener. Changes need a restart.' },
);

const Provider = Type.Object(
  {
    ...ProviderRowSchema.properties,
    ...providerFieldProperties,
    ...providerAliasProperties,
    api_key: Type.Optional(
      Type.String({
        minLength: 1,
        description: 'The credential that the gateway holds for this provider: "${OPENAI_API_KEY}".',
      }),
    ),
  },
  strict,
);

const name = {
  pattern: '^[A-Za-z0-9][A-Za-z0-9_-]*$',
  'x-expected': 'a name of letters, digits, "-" and "_"',
  maxLength: 255,
};

const Pipeline = Type.Object(
  {
    name: Type.String({ ...name, description: 'Label of the pipeline in logs and messages.' }),
    match: Type.Object(
      {
        routes: Type.Optional(
          Type.Literal('contributed', {
            description: 'Serve the routes that the plugins of the pipeline declare.',
          }),
        ),
        path: Type.Optional(
          Type.String({
            pattern: '^/',
            'x-expected': 'a path pattern that begins with "/"',
            description: 'Path pattern below the base path; `/**` matches everything, `*` one segment.',
          }),
        ),
        methods: Type.Optional(
          Type.Array(
            Type.String({ pattern: '^[A-Z]+$', 'x-expected': 'a method in capitals, such as "POST"' }),
            {
              minItems: 1,
              maxItems: 16,
              description: 'HTTP methods. Default: all.',
            },
          ),
        ),
      },
      {
        ...strict,
        minProperties: 1,
        'x-expected': 'an object with "routes" or "path"',
        description: 'Requests that the pipeline serves.',
      },
    ),
    plugins: Type.Array(
      Type.Union(
        [
          Type.String({ minLength: 1 }),
          Type.Record(Type.String(), Type.Unknown(), {
            minProperties: 1,
            maxProperties: 1,
            'x-expected': 'one plugin name with its options indented below it',
          }),
        ],
        { 'x-expected': 'the name of a plugin, alone or with its options indented below it' },
      ),
      {
        minItems: 1,
        maxItems: 64,
        description:
          'Plugins in order of execution: a built-in name, the name of an installed package, or a path relative to this file; alone or with options.',
      },
    ),
  },
  strict,
);

/** The whole file. The plugins' own schemas validate their options. */
export const GatewayConfigSchema = Type.Object(
  {
    version: Type.Literal(1, { description: 'Version of this format.' }),
    include: Type.Optional(
      Type.Array(Type.String({ minLength: 1 }), {
        maxItems: 100,
        description: 'More files (globs, relative to this one); their keys are merged in, lists appended.',
      }),
    ),
    server: Type.Optional(Server),
    security: Type.Optional(Security),
    storage: Type.Optional(Storage),
    retention: Type.Optional(Retention),
    exports: Type.Optional(Exports),
    alerts: Type.Optional(Alerts),
    prices: Type.Optional(PricesBlock),
    log: Type.Optional(
      Type.Object(
        {
          level: Type.Optional(
            Type.Union(
              [Type.Literal('debug'), Type.Literal('info'), Type.Literal('warn'), Type.Literal('error')],
              { default: 'info', description: 'Lowest level of lines to write.' },
            ),
          ),
          format: Type.Optional(
            Type.Union([Type.Literal('text'), Type.Literal('json')], {
              default: 'text',
              description: 'Human-readable lines, or one JSON object per line.',
            }),
          ),
        },
        { ...section, description: "The gateway's own log, on standard error." },
      ),
    ),
    telemetry: Type.Optional(Telemetry),
    changes: Type.Optional(Changes),
    providers: Type.Optional(
      Type.Record(Type.String(name), Provider, {
        default: {},
        description: 'Providers by name. A built-in name overrides that row.',
      }),
    ),
    configs: Type.Optional(
      Type.Record(Type.String(name), RouteConfigSchema, {
        default: {},
        description:
          'Routing configs by name: targets, strategies, retries, timeouts, caching. A request selects one with its config header. [configs.md](configs.md) explains every key.',
      }),
    ),
    organisation: Type.Optional(Organisation),
    pipelines: Type.Array(Pipeline, {
      minItems: 1,
      maxItems: 1000,
      description: 'The first pipeline that matches serves the request.',
    }),
  },
  { ...strict, title: 'Weir gateway configuration' },
);

/** As written: members with a default are optional. */
type GatewayConfigInput = Static<typeof GatewayConfigSchema>;

type Filled<T> = { [K in keyof T]-?: NonNullable<T[K]> };

type JournalInput = NonNullable<NonNullable<GatewayConfigInput['storage']>['journal']>;

type JournalSettings = Filled<Omit<JournalInput, 'max_bytes' | 'min_free_bytes'>> &
  Pick<JournalInput, 'max_bytes' | 'min_free_bytes'>;

/** In use: defaults filled in. */
export interface GatewayConfig {
  readonly version: 1;
  readonly server: Filled<Omit<NonNullable<GatewayConfigInput['server']>, 'drain_delay_ms'>> & {
    readonly drain_delay_ms?: number;
  };
  readonly security: Filled<Omit<NonNullable<GatewayConfigInput['security']>, 'secret_sources'>> & {
    readonly secret_sources: SecretSources;
  };
  readonly storage: {
    readonly resources: ResourcesStoreSettings;
    readonly analytics: AnalyticsStoreSettings;
    readonly counters: { readonly url: string };
    readonly cache: { readonly url?: string; readonly max_bytes: number; readonly max_value_bytes: number };
    readonly jobs: { readonly url?: string };
    readonly journal: JournalSettings;
    readonly engine_start_ms: number;
    readonly redis_budget_ms: number;
  };
  readonly retention: RetentionSettings;
  readonly exports: ExportSettings;
  readonly alerts: AlertSettings;
  readonly prices: { readonly url?: string; readonly models: readonly OwnPrice[] };
  readonly log: Filled<NonNullable<GatewayConfigInput['log']>>;
  readonly telemetry: TelemetrySettings;
  readonly changes: { readonly canary: CanaryRules };
  readonly providers: Readonly<Record<string, Static<typeof Provider>>>;
  readonly configs: Readonly<Record<string, RouteConfigInput>>;
  /** Undefined when the file owns no administered records. */
  readonly organisation?: OrganisationBlock;
  readonly pipelines: readonly PipelineConfig[];
}

/** One pipeline, with its plugins split into entries. */
export interface PipelineConfig {
  readonly name: string;
  readonly match: { readonly routes?: 'contributed'; readonly path?: string; readonly methods?: string[] };
  readonly plugins: readonly PluginEntry[];
}

/** When a hook that keeps failing is left alone, as written. */
export interface PluginBreakerInput {
  readonly failure_threshold?: number;
  /** Milliseconds. */
  readonly cooldown_interval?: number;
  readonly when_open?: 'bypass' | 'refuse';
}

/** One plugin in a pipeline, with its reserved options (`on_error`, `timeout_ms`, …) split off. */
export interface PluginEntry {
  /** Built-in name, package name, or a path as written. */
  readonly use: string;
  readonly options: Readonly<Record<string, unknown>>;
  readonly onError: 'fail' | 'skip' | undefined;
  readonly timeoutMs: number | undefined;
  readonly breaker?: boolean | PluginBreakerInput;
  /** Bounds of the thread that it runs in: MiB, and milliseconds of one call. Absent: it runs in the gateway's own. */
  readonly isolate?: { readonly memoryMb: number; readonly cpuMs: number };
  /** JSON pointer of the entry, and of its options, for messages. */
  readonly pointer: string;
  readonly optionsPointer: string;
  /** File of the entry; base of its relative paths. */
  readonly file: string;
}

/** Prefixes of the gateway's own headers, each with its dash (`x-service-`), the preferred one first. */
export function servicePrefixes({
  header_prefix: prefix,
  header_aliases: aliases,
}: Pick<GatewayConfig['server'], 'header_prefix' | 'header_aliases'>): string[] {
  return [prefix, ...aliases].map((one) => `${one}-`);
}

/** Section `storage.analytics` of the configuration, defaults filled in. */
interface AnalyticsStoreSettings extends AnalyticsServerSettings {
  /** Whether the search of bodies has an index. */
  readonly text_index: boolean;
  /** Resident memory of the embedded engine's process. */
  readonly max_memory_bytes: number;
  /** Queries that run at the same time. Default: 4 on a server, 2 on the embedded engine. */
  readonly max_concurrent_queries?: number;
  readonly max_queued_queries: number;
  readonly query_timeout_s: number;
}
