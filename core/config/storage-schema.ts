import { Type } from 'typebox';
import { AnalyticsStore } from './analytics-store-schema.ts';
import { ResourcesStore } from './resources-store-schema.ts';
import { section } from './schema-section.ts';

const Store = (options: { default: string; pattern: string; 'x-expected': string; description: string }) =>
  Type.Object({ url: Type.Optional(Type.String(options)) }, section);

/** Section `storage`: where things are kept. */
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
