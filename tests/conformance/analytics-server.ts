/** The ClickHouse server that `CLICKHOUSE_TEST_*` name, in the words of `storage.analytics`. */
interface ClickHouseUnderTest {
  /** Without a path. */
  readonly url: string;
  readonly username: string;
  readonly password: string;
  readonly ca_file?: string;
  readonly cluster?: string;
  readonly replicated: boolean;
  readonly replica_path: string;
  readonly replica_name: string;
  readonly sharded: boolean;
  readonly insert_quorum?: number | 'auto';
  readonly insert_quorum_parallel: boolean;
}

/**
 * `CLICKHOUSE_TEST_URL` (`http://host:8123`, credentials allowed here), `CLICKHOUSE_TEST_USER`,
 * `CLICKHOUSE_TEST_PASSWORD`, `CLICKHOUSE_TEST_CA_FILE` (absolute) and `CLICKHOUSE_TEST_CLUSTER`, which also asks for
 * replicated tables; with it `CLICKHOUSE_TEST_SHARDED=1` for all of its shards, and `CLICKHOUSE_TEST_QUORUM` (a number
 * or `auto`). Undefined without a URL.
 */
export function clickHouseUnderTest(
  env: Readonly<Record<string, string | undefined>>,
): ClickHouseUnderTest | undefined {
  const address = env['CLICKHOUSE_TEST_URL'];
  if (address === undefined || address === '') return undefined;
  const { origin, username, password } = new URL(address);
  const caFile = env['CLICKHOUSE_TEST_CA_FILE'];
  const cluster = env['CLICKHOUSE_TEST_CLUSTER'];
  const quorum = env['CLICKHOUSE_TEST_QUORUM'];
  return {
    url: origin,
    username: env['CLICKHOUSE_TEST_USER'] ?? (decodeURIComponent(username) || 'default'),
    password: env['CLICKHOUSE_TEST_PASSWORD'] ?? decodeURIComponent(password),
    ...(caFile !== undefined && { ca_file: caFile }),
    ...(cluster !== undefined && { cluster }),
    replicated: cluster !== undefined,
    replica_path: '/clickhouse/tables/{shard}/{database}/{table}',
    replica_name: '{replica}',
    sharded: env['CLICKHOUSE_TEST_SHARDED'] === '1',
    ...(quorum !== undefined && { insert_quorum: quorum === 'auto' ? quorum : Number(quorum) }),
    insert_quorum_parallel: true,
  };
}
