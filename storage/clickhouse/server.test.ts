import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { createClient } from '@clickhouse/client';
import { analyticsConformance } from '../../tests/conformance/analytics.ts';
import { recordingLog } from '../embedded/chdb-fixture.ts';
import { createAnalytics } from './create-analytics.ts';

const address = process.env['CLICKHOUSE_TEST_URL'];

if (address === undefined) {
  const skip = 'CLICKHOUSE_TEST_URL is not set (http://user:password@host:8123 of a ClickHouse server)';
  test('analytics: ClickHouse server', { skip }, () => undefined);
} else {
  analyticsConformance('ClickHouse server', async () => {
    const { origin, username, password } = new URL(address);
    const server = {
      url: origin,
      username: decodeURIComponent(username) || 'default',
      password: decodeURIComponent(password),
    };
    const database = `weir_test_${randomUUID().replaceAll('-', '')}`;
    const analytics = await createAnalytics({ ...server, database, log: recordingLog() });
    return {
      analytics,
      async close() {
        await analytics.close();
        const client = createClient(server);
        await client.command({
          query: 'DROP DATABASE {database:Identifier} SYNC',
          query_params: { database },
        });
        await client.close();
      },
    };
  });
}
