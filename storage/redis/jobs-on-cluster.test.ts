import { after, before, describe } from 'node:test';
import { jobsConformance } from '../../tests/conformance/jobs.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { type RedisCluster, startRedisCluster } from '../../tests/kit/redis-cluster.ts';
import { redisMissing } from '../../tests/kit/redis-server.ts';
import { openBullmqJobs } from './bullmq-jobs.ts';

const lockMs = 300;

describe('with a cluster', { skip: redisMissing }, () => {
  let cluster: RedisCluster;
  before(async () => {
    cluster = await startRedisCluster();
  });
  after(() => cluster.stop());

  jobsConformance({
    name: 'on a Redis cluster of three',
    skip: false,
    shared: true,
    async place() {
      const { url } = cluster;
      for (const one of cluster.servers) await cluster.ask(one, 'FLUSHALL');
      return {
        async open(options) {
          const jobs = openBullmqJobs({ ...options, url, lockMs });
          await eventually(() =>
            jobs.ping().then(
              () => true,
              () => undefined,
            ),
          );
          return jobs;
        },
        child: ['redis', url, String(lockMs)],
      };
    },
  });
});
