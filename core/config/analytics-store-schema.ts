import { Type } from 'typebox';
import { section } from './schema-section.ts';

/** Section `storage.analytics`: the embedded engine, or a ClickHouse server and how to speak to it. */
export const AnalyticsStore = Type.Object(
  {
    url: Type.Optional(
      Type.String({
        default: 'chdb:',
        // Whatever holds credentials passes here: the next rule refuses it without quoting it.
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
