import { Type } from 'typebox';
import { section } from './schema-object.ts';
import { exportFields } from '../ports/export-fields.ts';

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
          'Where exported files are kept: `file:` (under the data folder), `file:/DIR` (a folder that gateways may share), or a bucket of a store that speaks S3 as `s3://BUCKET/PREFIX`. See docs/exports.md.',
      }),
    ),
    expires_days: Type.Optional(
      Type.Number({
        default: 7,
        exclusiveMinimum: 0,
        maximum: 3650,
        description: 'How long a file is kept after its export has ended.',
      }),
    ),
    max_rows: Type.Optional(
      Type.Integer({
        default: 10_000_000,
        minimum: 1,
        maximum: 1_000_000_000,
        description: 'The most rows of one file; an export about more of them is refused.',
      }),
    ),
    link_minutes: Type.Optional(
      Type.Integer({
        default: 60,
        minimum: 1,
        maximum: 10_080,
        description: 'How long a link to a file opens. The file can be fetched by the link without a key.',
      }),
    ),
    denied_fields: Type.Optional(
      Type.Array(Field, {
        default: [],
        maxItems: exportFields.length,
        description:
          'What no export may hold: `request`, `response`, … Exports that ask for it are refused with 403.',
      }),
    ),
    region: Type.Optional(
      Type.String({
        default: 'us-east-1',
        pattern: '^[a-z0-9-]{1,64}$',
        'x-expected': 'a region, such as "eu-central-1"',
        description: 'Of the bucket.',
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
        description: 'Where the store is reached that speaks S3. Empty: AWS in that region.',
      }),
    ),
    path_style: Type.Optional(
      Type.Boolean({
        default: false,
        description: 'The bucket stands in the path instead of the host name, as MinIO and others want it.',
      }),
    ),
    access_key_id: key('Without it: AWS_ACCESS_KEY_ID of the environment.'),
    secret_access_key: key('Best from a variable. Without it: AWS_SECRET_ACCESS_KEY of the environment.'),
    session_token: key('For keys that are given for a while. Without it: AWS_SESSION_TOKEN.'),
  },
  { ...section, description: 'Logs as files. Changes need a restart.' },
);

const days = (fallback: number, description: string) =>
  Type.Optional(Type.Integer({ default: fallback, minimum: 0, maximum: 99_999, description }));

/** Section `retention`: days after which the analytics store deletes rows. */
export const Retention = Type.Object(
  {
    logs_days: days(90, 'Days that log rows of requests are kept; 0: for ever.'),
    bodies_days: days(
      30,
      'Days that logged bodies (what was sent and answered) are kept; 0: for ever. They are nearly all that a log takes on disk.',
    ),
    metrics_days: days(
      365,
      'Days that the roll-ups behind graphs are kept, and feedback; 0: for ever. Graphs show what is older than `logs_days` from them.',
    ),
  },
  {
    ...section,
    description:
      'How long the analytics store keeps rows, by the time of their acceptance. A change needs a restart, which applies it to the rows that are there. See docs/clickhouse.md.',
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
          'Where organisations, workspaces, keys and the record of changes live: `pglite:` (embedded, under the data folder), `pglite:DIR`, a PostgreSQL server as `postgres://USER:PASSWORD@HOST:5432/DATABASE` (`?sslmode=require` or `verify-full` for TLS; database `weir` when none is named), or `none:` (nothing can be administered; only the keys of the data folder and of this file exist). See docs/postgres.md.',
      }),
    ),
    password: Type.Optional(
      Type.String({
        maxLength: 1024,
        description:
          'Instead of one in `url`, where special characters have to be escaped. Best from a variable: "${POSTGRES_PASSWORD}".',
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
  { ...section, description: 'What is administered.' },
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
          'Where logs and analytics live: `chdb:` (embedded, under the data folder), `chdb:DIR`, a ClickHouse server as `http://HOST:8123/DATABASE` or `https://…` (database `weir` when none is named), or `none:` (rows stay in the journal). See docs/clickhouse.md.',
      }),
    ),
    username: Type.Optional(
      Type.String({ minLength: 1, maxLength: 256, description: 'Without it: `default`.' }),
    ),
    password: Type.Optional(
      Type.String({
        maxLength: 1024,
        description: 'Best from a variable: "${CLICKHOUSE_PASSWORD}". Without it: empty.',
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
        description: 'Changes of the schema run ON CLUSTER this name. Without it: on the server itself.',
      }),
    ),
    replicated: Type.Optional(
      Type.Boolean({ default: false, description: 'Tables are created with replicated engines.' }),
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
    max_memory_bytes: Type.Optional(
      Type.Integer({
        default: 1_073_741_824,
        minimum: 805_306_368,
        description:
          'Resident memory that the process of the embedded engine may take, caches and merges included. A server has settings of its own.',
      }),
    ),
    max_concurrent_queries: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 64,
        description:
          'Queries of logs and analytics that this gateway runs at the same time; more of them wait. Default: 4 on a server, 2 on the embedded engine. What stores log rows never waits for them.',
      }),
    ),
    max_queued_queries: Type.Optional(
      Type.Integer({
        default: 32,
        minimum: 0,
        maximum: 10_000,
        description:
          'Queries that wait, for ten seconds at the most; beyond either they get 429 `too_many_queries`. Organisations, their workspaces and the keys of these take turns.',
      }),
    ),
    query_timeout_s: Type.Optional(
      Type.Integer({
        default: 20,
        minimum: 1,
        maximum: 300,
        description: 'The store ends a query after so many seconds: 504 `query_timeout`.',
      }),
    ),
  },
  section,
);

const Store = (options: { default: string; pattern: string; 'x-expected': string; description: string }) =>
  Type.Object({ url: Type.Optional(Type.String(options)) }, section);

/** Section `storage`: the stores. */
export const Storage = Type.Object(
  {
    resources: Type.Optional(ResourcesStore),
    analytics: Type.Optional(AnalyticsStore),
    counters: Type.Optional(
      Store({
        default: 'memory:',
        pattern: '^(memory:|rediss?://.+)$',
        'x-expected': '"memory:" or "redis://HOST:6379"',
        description:
          'Where rate limits are counted: `memory:` (each process for itself) or a Redis server as `redis://[USER:PASSWORD@]HOST:PORT[/DB]`, `rediss://` for TLS.',
      }),
    ),
    cache: Type.Optional(
      Type.Object(
        {
          url: Type.Optional(
            Type.String({
              pattern: '^(memory:|rediss?://.+)$',
              'x-expected': '"memory:" or "redis://HOST:6379"',
              description: 'Where answers are cached. Default: where rate limits are counted.',
            }),
          ),
          max_bytes: Type.Optional(
            Type.Integer({
              default: 134217728,
              minimum: 1048576,
              description:
                'Bound of `memory:`, all values together; the memory taken for them may be half as much again. A Redis server has its own (`maxmemory`).',
            }),
          ),
          max_value_bytes: Type.Optional(
            Type.Integer({
              default: 4194304,
              minimum: 1024,
              maximum: 67108864,
              description: 'A longer answer is not cached.',
            }),
          ),
        },
        { ...section, description: 'Cached answers.' },
      ),
    ),
    jobs: Type.Optional(
      Type.Object(
        {
          url: Type.Optional(
            Type.String({
              pattern: '^(file:|rediss?://.+)$',
              'x-expected': '"file:" or "redis://HOST:6379"',
              description:
                'Where jobs wait that are done beside requests: `file:` (this process alone, in the data folder) or a Redis server that gateways share. Default: the server where rate limits are counted, else `file:`. See docs/jobs.md.',
            }),
          ),
        },
        { ...section, description: 'What is done beside requests: keys and invites that end.' },
      ),
    ),
    redis_budget_ms: Type.Optional(
      Type.Integer({
        default: 50,
        minimum: 10,
        maximum: 5000,
        description:
          'How long a request waits for an answer of a Redis server that counts or caches, without the time in which the gateway itself was busy. Three misses in a row, and the server is treated as away. See docs/redis.md.',
      }),
    ),
    engine_start_ms: Type.Optional(
      Type.Integer({
        default: 300_000,
        minimum: 1000,
        maximum: 3_600_000,
        description:
          'How long an embedded engine may take to start; the first start on a busy machine takes longest. The log tells every 30 seconds that it is waited for.',
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
              description: 'How often accepted rows are written to disk; what a kill -9 can lose at most.',
            }),
          ),
          ship_ms: Type.Optional(
            Type.Integer({
              default: 1000,
              minimum: 10,
              maximum: 60000,
              description: 'How often segments are sealed and sent to the analytics store.',
            }),
          ),
          sync: Type.Optional(
            Type.Union([Type.Literal('none'), Type.Literal('interval'), Type.Literal('each')], {
              default: 'interval',
              description:
                'When written rows are made durable (`fdatasync`), so that a power cut leaves them. `interval`: within `sync_ms`. `each`: with every write, so that a power cut loses no more than `kill -9` does. `none`: when the system does so by itself. No request waits for it. See docs/journal.md.',
            }),
          ),
          sync_ms: Type.Optional(
            Type.Integer({
              default: 1000,
              minimum: 10,
              maximum: 60000,
              description: 'With `sync: interval`, how long written rows may wait until they are durable.',
            }),
          ),
          max_bytes: Type.Optional(
            Type.Integer({
              minimum: 1048576,
              description:
                'Disk bound while the analytics store is away; near it, `when_full` says what happens. Default: what is free on the disk but for `min_free_bytes`; 2147483648 (2 GiB) with the analytics store `none:`.',
            }),
          ),
          min_free_bytes: Type.Optional(
            Type.Integer({
              minimum: 0,
              description:
                'Without `max_bytes`, what the journal leaves free for others on its disk. Default: a tenth of the disk, 1 GiB at most.',
            }),
          ),
          max_age_hours: Type.Optional(
            Type.Integer({
              default: 72,
              minimum: 1,
              maximum: 8760,
              description:
                'How long rows wait for an analytics store that is away; then the oldest are given up and counted. With `when_full: block` they wait for as long as there is room.',
            }),
          ),
          when_full: Type.Optional(
            Type.Union([Type.Literal('shed'), Type.Literal('block')], {
              default: 'shed',
              description:
                '`shed`: log rows are given up and counted, those of the workspaces that write most first, and bodies before requests. `block`: requests wait for room and are refused with `journal_full`, so that nothing is spent that cannot be logged. See docs/journal.md.',
            }),
          ),
          block_ms: Type.Optional(
            Type.Integer({
              default: 10000,
              minimum: 0,
              maximum: 20000,
              description: 'With `when_full: block`, how long a request waits for room before it is refused.',
            }),
          ),
        },
        { ...section, description: 'Log rows on disk, on their way to the analytics store.' },
      ),
    ),
  },
  { ...section, description: 'Stores. Changes need a restart.' },
);
