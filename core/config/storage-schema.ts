import { Type } from 'typebox';
import { section } from './describe-schema.ts';
import { exportFields } from '../ports/request-row.ts';

const Field = Type.Enum([...exportFields], { 'x-expected': 'a field of an export, such as "request"' });
const key = (description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength: 4096, description }));

/** Section `exports`: destination and content of files with logs. */
export const Exports = Type.Object(
  {
    url: Type.Optional(
      Type.String({
        default: 'file:',
        pattern: '^(file:(/.*)?|s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_-][A-Za-z0-9._-]*)*/?)$',
        'x-expected': '"file:", "file:/DIR" or "s3://BUCKET/PREFIX"',
        description:
          'Storage of exported files: `file:` (under the data folder), `file:/DIR` (a folder that several gateways may share), or a bucket of an S3-compatible store as `s3://BUCKET/PREFIX`. See docs/exports.md.',
      }),
    ),
    expires_days: Type.Optional(
      Type.Number({
        default: 7,
        exclusiveMinimum: 0,
        maximum: 3650,
        description: 'Retention of a file after its export has ended.',
      }),
    ),
    max_rows: Type.Optional(
      Type.Integer({
        default: 10_000_000,
        minimum: 1,
        maximum: 1_000_000_000,
        description: 'Most rows in one file; a larger export is refused.',
      }),
    ),
    link_minutes: Type.Optional(
      Type.Integer({
        default: 60,
        minimum: 1,
        maximum: 10_080,
        description: 'Lifetime of a link to a file. The link gives access to the file without a key.',
      }),
    ),
    denied_fields: Type.Optional(
      Type.Array(Field, {
        default: [],
        maxItems: exportFields.length,
        description:
          'Fields that no export may contain: `request`, `response`, … An export that requests one is refused with 403.',
      }),
    ),
    region: Type.Optional(
      Type.String({
        default: 'us-east-1',
        pattern: '^[a-z0-9-]{1,64}$',
        'x-expected': 'a region, such as "eu-central-1"',
        description: 'Region of the bucket.',
      }),
    ),
    endpoint: Type.Optional(
      Type.String({
        default: '',
        // Accepts a URL with credentials: the next rule refuses it without quoting it.
        pattern: '^(https?://(.*@.*|[^\\s/?#@]+))?$',
        not: {
          pattern: '@',
          'x-expected':
            'an address without a user name and a password; put the keys into "access_key_id" and "secret_access_key" beside it',
        },
        'x-expected': 'an origin such as "https://minio.internal:9000"',
        description: 'Address of the S3-compatible store. Empty: AWS in that region.',
      }),
    ),
    path_style: Type.Optional(
      Type.Boolean({
        default: false,
        description: 'Put the bucket into the path instead of the host name, as MinIO and others require.',
      }),
    ),
    access_key_id: key('Without it: AWS_ACCESS_KEY_ID of the environment.'),
    secret_access_key: key('Best from a variable. Without it: AWS_SECRET_ACCESS_KEY of the environment.'),
    session_token: key('Session token of temporary keys. Default: AWS_SESSION_TOKEN.'),
  },
  { ...section, description: 'Exports of logs as files. Changes need a restart.' },
);

const days = (fallback: number, description: string) =>
  Type.Optional(Type.Integer({ default: fallback, minimum: 0, maximum: 99_999, description }));

/** Section `retention`: days after which the analytics store deletes rows. */
export const Retention = Type.Object(
  {
    logs_days: days(90, 'Retention of log rows of requests in days; 0: forever.'),
    bodies_days: days(
      30,
      'Retention of logged bodies of requests and answers in days; 0: forever. Bodies take most of the disk space of the log.',
    ),
    metrics_days: days(
      365,
      'Retention of feedback and of the roll-ups behind graphs in days; 0: forever. Graphs use the roll-ups for data older than `logs_days`.',
    ),
  },
  {
    ...section,
    description:
      'Retention of rows in the analytics store, by the time of their acceptance. A change needs a restart, which also applies it to existing rows. See docs/clickhouse.md.',
  },
);

/** Section `storage.resources`: the embedded engine, or a PostgreSQL server and its connection. */
const ResourcesStore = Type.Object(
  {
    url: Type.Optional(
      Type.String({
        default: 'pglite:',
        // Accepts a URL with credentials: the next rule refuses a wrong scheme without quoting it.
        pattern: '^(pglite:.*|none:|.*@.*|postgres(ql)?://.+)$',
        not: {
          pattern: '^(?!pglite:|postgres(ql)?://).*@',
          'x-expected': 'an address that begins with "postgres://"',
        },
        'x-expected':
          '"pglite:", "pglite:" and a directory, "postgres://USER@HOST:5432/DATABASE", or "none:"',
        description:
          'Store for organisations, workspaces, keys and the audit trail: `pglite:` (embedded, under the data folder), `pglite:DIR`, a PostgreSQL server as `postgres://USER:PASSWORD@HOST:5432/DATABASE` (`?sslmode=require` or `verify-full` for TLS; database `weir` when none is named), or `none:` (no administration; only the keys of the data folder and of this file exist). See docs/postgres.md.',
      }),
    ),
    password: Type.Optional(
      Type.String({
        maxLength: 1024,
        description:
          'Password, instead of one in `url`, where special characters have to be escaped. Best read from an environment variable: "${POSTGRES_PASSWORD}".',
      }),
    ),
    ca_file: Type.Optional(
      Type.String({
        minLength: 1,
        description:
          'Certificates (PEM) of the authorities to trust instead of the usual ones; relative to the configuration file. For `?sslmode=verify-full`.',
      }),
    ),
  },
  { ...section, description: 'Store of the administration.' },
);

/** Section `storage.analytics`: the embedded engine, or a ClickHouse server and its connection. */
const AnalyticsStore = Type.Object(
  {
    url: Type.Optional(
      Type.String({
        default: 'chdb:',
        // Accepts a URL with credentials: the next rule refuses it without quoting it.
        pattern: '^(chdb:.*|none:|https?://(.*@.*|[^/?#@]+(/[A-Za-z0-9_]*)?))$',
        not: {
          pattern: '^https?://.*@',
          'x-expected':
            'an address without a user name and a password; put them into "username" and "password" beside it',
        },
        'x-expected': '"chdb:", "chdb:" and a directory, "https://HOST:8443/DATABASE", or "none:"',
        description:
          'Store for logs and analytics: `chdb:` (embedded, under the data folder), `chdb:DIR`, a ClickHouse server as `http://HOST:8123/DATABASE` or `https://…` (database `weir` when none is named), or `none:` (rows stay in the journal). See docs/clickhouse.md.',
      }),
    ),
    username: Type.Optional(
      Type.String({ minLength: 1, maxLength: 256, description: 'User. Default: `default`.' }),
    ),
    password: Type.Optional(
      Type.String({
        maxLength: 1024,
        description:
          'Password, best read from an environment variable: "${CLICKHOUSE_PASSWORD}". Default: empty.',
      }),
    ),
    ca_file: Type.Optional(
      Type.String({
        minLength: 1,
        description:
          'Certificates (PEM) of the authorities to trust instead of the usual ones; relative to the configuration file. For `https://`.',
      }),
    ),
    cluster: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z0-9_.{}-]+$',
        maxLength: 256,
        'x-expected': 'the name of a cluster, or a macro such as "{cluster}"',
        description:
          'Cluster for ON CLUSTER in changes of the schema. Without it they run only on the server itself.',
      }),
    ),
    replicated: Type.Optional(
      Type.Boolean({ default: false, description: 'Create tables with replicated engines.' }),
    ),
    replica_path: Type.Optional(
      Type.String({
        default: '/clickhouse/tables/{shard}/{database}/{table}',
        pattern: '^(/.*)?$',
        maxLength: 1024,
        'x-expected': 'a path that begins with "/", or an empty text',
        description:
          "Path of a replicated table in Keeper, with the servers' macros. Empty: the servers' own default path and name.",
      }),
    ),
    replica_name: Type.Optional(
      Type.String({
        default: '{replica}',
        minLength: 1,
        maxLength: 256,
        description: 'Name of a replica in that path.',
      }),
    ),
    sharded: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Spread rows over all shards of the cluster: each has the tables, and Distributed tables in the database `DATABASE_all` read and write those of all shards. Needs `cluster`.',
      }),
    ),
    insert_quorum: Type.Optional(
      Type.Union([Type.Integer({ minimum: 2, maximum: 1000 }), Type.Literal('auto')], {
        'x-expected': 'a number of replicas from 2 on, or "auto" for the majority',
        description:
          'Replicas that have stored a batch before it counts as stored; `auto`: the majority. Until then it waits in the journal. Needs `replicated`. Default: one replica.',
      }),
    ),
    insert_quorum_parallel: Type.Optional(
      Type.Boolean({
        default: true,
        description:
          'Quorum inserts into a table may run at the same time. False: one after the other, also those of several gateways; `weir reprice` then reads with `select_sequential_consistency`.',
      }),
    ),
    text_index: Type.Optional(
      Type.Boolean({
        default: true,
        description:
          'Index for the search of logged bodies (`search`). It is about a third of the CPU that a row with 2 KB of bodies costs the store. Without it a search reads all bodies of its window, newest hours first. A change needs a restart.',
      }),
    ),
    max_memory_bytes: Type.Optional(
      Type.Integer({
        default: 1_073_741_824,
        minimum: 805_306_368,
        description:
          'Limit of resident memory for the process of the embedded engine, including caches and merges. A server has its own settings.',
      }),
    ),
    max_concurrent_queries: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 64,
        description:
          'Most queries of logs and analytics that this gateway runs at the same time; further ones wait. Default: 4 on a server, 2 on the embedded engine. Inserts of log rows never wait for queries.',
      }),
    ),
    max_queued_queries: Type.Optional(
      Type.Integer({
        default: 32,
        minimum: 0,
        maximum: 10_000,
        description:
          'Most queries that wait, each for ten seconds at most; beyond either limit a query gets 429 `too_many_queries`. The queue is fair between organisations, their workspaces and the keys of those.',
      }),
    ),
    query_timeout_s: Type.Optional(
      Type.Integer({
        default: 20,
        minimum: 1,
        maximum: 300,
        description: 'Seconds after which the store ends a query: 504 `query_timeout`.',
      }),
    ),
  },
  section,
);

/** Rules of a Redis address beyond its form. Their messages do not quote it: it may hold a password. */
const redisRules = [
  {
    pattern: '^(?!rediss?(\\+cluster|\\+sentinel)?://).*@',
    'x-expected': 'an address that begins with "redis://", "redis+cluster://" or "redis+sentinel://"',
  },
  {
    pattern: '^rediss?://([^/?#]*@)?[^@/?#]*,[^@/?#]*([/?#]|$)',
    'x-expected':
      'one server behind "redis://"; with "redis+cluster://" or "redis+sentinel://" there may be several',
  },
  {
    pattern: '^rediss?\\+cluster://[^/?#]*(?!/0?$)[/?#]',
    'x-expected': 'nothing behind the servers of "redis+cluster://": a cluster has only the database 0',
  },
  {
    pattern: '^rediss?\\+sentinel://[^/?#]*/?([0-9]*/?([?#]|$))',
    'x-expected':
      'the name of the primary behind the sentinels: "redis+sentinel://HOST:26379,HOST:26379/PRIMARY/0"',
  },
].map((rule) => ({ not: rule }));

/** Address of a Redis server, a cluster, or sentinels; or `own`, a store of this process. */
const redisUrl = (own: 'memory:' | 'file:', options: { default?: string; description: string }) =>
  Type.Optional(
    Type.String({
      ...options,
      pattern: `^(${own}|.*@.*|rediss?(\\+cluster|\\+sentinel)?://.+)$`,
      'x-expected': `"${own}", "redis://HOST:6379", "redis+cluster://HOST:6379,HOST:6379" or "redis+sentinel://HOST:26379,HOST:26379/PRIMARY"`,
      allOf: redisRules,
    }),
  );

/** Section `storage`: the stores. */
export const Storage = Type.Object(
  {
    resources: Type.Optional(ResourcesStore),
    analytics: Type.Optional(AnalyticsStore),
    counters: Type.Optional(
      Type.Object(
        {
          url: redisUrl('memory:', {
            default: 'memory:',
            description:
              'Store for the counters of rate limits: `memory:` (per process), a Redis server as `redis://[USER:PASSWORD@]HOST:PORT[/DB]`, a cluster as `redis+cluster://[USER:PASSWORD@]HOST:PORT,HOST:PORT`, or the primary that sentinels name as `redis+sentinel://[USER:PASSWORD@]HOST:PORT,HOST:PORT/PRIMARY[/DB]`; `rediss` instead of `redis` for TLS. See docs/redis.md.',
          }),
        },
        section,
      ),
    ),
    cache: Type.Optional(
      Type.Object(
        {
          url: redisUrl('memory:', {
            description:
              'Store for cached answers, in the same form. Default: the store of the rate-limit counters.',
          }),
          max_bytes: Type.Optional(
            Type.Integer({
              default: 134217728,
              minimum: 1048576,
              description:
                'Size limit of `memory:` for all values together; the memory used may be half as much again. A Redis server has its own limit (`maxmemory`).',
            }),
          ),
          max_value_bytes: Type.Optional(
            Type.Integer({
              default: 4194304,
              minimum: 1024,
              maximum: 67108864,
              description: 'Largest answer that is cached.',
            }),
          ),
        },
        { ...section, description: 'Cached answers.' },
      ),
    ),
    jobs: Type.Optional(
      Type.Object(
        {
          url: redisUrl('file:', {
            description:
              'Queue of background jobs: `file:` (only this process, in the data folder) or a Redis server, cluster or sentinels, in the form of `storage.counters.url`, that several gateways share. Default: the server of the rate-limit counters, else `file:`. See docs/jobs.md.',
          }),
        },
        { ...section, description: 'Background jobs, such as the expiry of keys and invites.' },
      ),
    ),
    redis_budget_ms: Type.Optional(
      Type.Integer({
        default: 50,
        minimum: 10,
        maximum: 5000,
        description:
          'Longest time that a request waits for an answer of a Redis server (counters or cache), excluding time in which the gateway itself was busy. After three timeouts in a row the gateway treats the server as unavailable. See docs/redis.md.',
      }),
    ),
    engine_start_ms: Type.Optional(
      Type.Integer({
        default: 300_000,
        minimum: 1000,
        maximum: 3_600_000,
        description:
          'Longest start of an embedded engine; the first start on a busy machine takes longest. While the gateway waits, it logs this every 30 seconds.',
      }),
    ),
    journal: Type.Optional(
      Type.Object(
        {
          flush_ms: Type.Optional(
            Type.Integer({
              default: 20,
              minimum: 1,
              maximum: 10000,
              description:
                'Interval at which accepted rows are written to disk, and so the most that a kill -9 can lose.',
            }),
          ),
          ship_ms: Type.Optional(
            Type.Integer({
              default: 1000,
              minimum: 10,
              maximum: 60000,
              description:
                'Time from the first row of a segment until it is sealed and sent to the analytics store. Segments are sent at least three times as far apart: under steady traffic a row waits up to that long, and the store gets fewer, larger inserts.',
            }),
          ),
          sync: Type.Optional(
            Type.Union([Type.Literal('none'), Type.Literal('interval'), Type.Literal('each')], {
              default: 'interval',
              description:
                'When the gateway syncs written rows to disk (`fdatasync`), so that they survive a power cut. `interval`: within `sync_ms`. `each`: with every write, so that a power cut loses no more than `kill -9` does. `none`: when the operating system does. No request waits for a sync. See docs/journal.md.',
            }),
          ),
          sync_ms: Type.Optional(
            Type.Integer({
              default: 1000,
              minimum: 10,
              maximum: 60000,
              description: 'With `sync: interval`, longest time until written rows are synced to disk.',
            }),
          ),
          max_bytes: Type.Optional(
            Type.Integer({
              minimum: 1048576,
              description:
                'Size limit of the journal on disk while the analytics store is unavailable; near it, `when_full` applies. Default: the free space of the disk minus `min_free_bytes`; 2147483648 (2 GiB) with the analytics store `none:`.',
            }),
          ),
          min_free_bytes: Type.Optional(
            Type.Integer({
              minimum: 0,
              description:
                'Without `max_bytes`, space that the journal leaves free on its disk. Default: a tenth of the disk, 1 GiB at most.',
            }),
          ),
          max_age_hours: Type.Optional(
            Type.Integer({
              default: 72,
              minimum: 1,
              maximum: 8760,
              description:
                'Longest time that rows wait for an unavailable analytics store; then the oldest are dropped and counted. With `when_full: block` they wait for as long as there is room.',
            }),
          ),
          when_full: Type.Optional(
            Type.Union([Type.Literal('shed'), Type.Literal('block')], {
              default: 'shed',
              description:
                '`shed`: log rows are dropped and counted, first those of the workspaces that write most, and bodies before requests. `block`: requests wait for room and are refused with `journal_full`, so that every request that costs money is logged. See docs/journal.md.',
            }),
          ),
          block_ms: Type.Optional(
            Type.Integer({
              default: 10000,
              minimum: 0,
              maximum: 20000,
              description:
                'With `when_full: block`, longest time that a request waits for room before it is refused.',
            }),
          ),
        },
        { ...section, description: 'Log rows on disk, on their way to the analytics store.' },
      ),
    ),
  },
  { ...section, description: 'Stores. Changes need a restart.' },
);
