/** A gateway's jobs in a process that the suite kills: adds three, begins one, says so and hangs. */
import { realClock, recordingLog } from '../../core/lifecycle/recording-services.test-support.ts';
import type { Jobs } from '../../core/ports/jobs.ts';
import { openLocalJobs } from '../../storage/jobs/local-jobs.ts';
import { openBullmqJobs } from '../../storage/redis/bullmq-jobs.ts';

const [kind, place = '', lockMs] = process.argv.slice(2);
const parts = { log: recordingLog([]), clock: realClock };
const jobs: Jobs =
  kind === 'redis'
    ? openBullmqJobs({ ...parts, url: place, lockMs: Number(lockMs) })
    : await openLocalJobs({ ...parts, directory: place });
jobs.define({
  name: 'mail.hang',
  handle() {
    process.stdout.write('running\n');
    return new Promise(() => undefined);
  },
});
jobs.define({ name: 'mail.wait', handle: () => Promise.resolve() });
await untilStored(() => jobs.add('mail.wait', 'waiting-1', { n: 2 }, { delayMs: 1000 }));
await jobs.add('mail.wait', 'waiting-2', { n: 3 }, { delayMs: 1000 });
await jobs.add('mail.hang', 'hung', { n: 1 });
await jobs.start();

/** The server may take a moment to be connected. */
async function untilStored(add: () => Promise<void>): Promise<void> {
  for (;;) {
    try {
      return await add();
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
