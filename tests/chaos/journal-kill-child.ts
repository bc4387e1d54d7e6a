/**
 * A process that is made to be killed: it opens the journal in a folder, ships to the parent, appends rows and
 * says on standard output up to which one it has flushed. Started by `journal-kill.test.ts` with the folder, the
 * port of the parent's store, the number of this run, and the rows to append (0: only deliver what is left).
 */
import { createReadStream } from 'node:fs';
import { request } from 'node:http';
import { pipeline } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { StoredRows } from '../../core/ports/analytics.ts';
import type { JournalTable } from '../../core/ports/journal.ts';
import type { Log } from '../../core/ports/log.ts';
import { openJournal } from '../../storage/journal/journal.ts';

const [directory = '', port = '', run = '', rows = ''] = process.argv.slice(2);
const log: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => log };
const clock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, act) {
    const timer = setTimeout(act, ms);
    return () => clearTimeout(timer);
  },
};

function insert(table: JournalTable, rows: StoredRows, token: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const path = `/${table}?token=${encodeURIComponent(token)}`;
    const call = request({ host: '127.0.0.1', port, path, method: 'POST' }, (answer) => {
      answer.resume();
      if (answer.statusCode === 200) answer.on('end', resolve);
      else if (answer.statusCode === 422) reject(new Error('a row is no JSON'));
      else reject(new GatewayError('store_unavailable', `The store answered ${answer.statusCode}.`));
    });
    call.on('error', reject);
    const file = createReadStream(rows.path, { start: rows.from, end: rows.end - 1 });
    pipeline(file, call, (error) => error && reject(error));
  });
}

const bounds = { flushMs: 2, shipMs: 10, maxBytes: 100_000_000, maxSegmentBytes: 50_000 };
const journal = await openJournal({ directory, insert, clock, log, ...bounds });

for (let n = 0; n < Number(rows);) {
  for (const end = n + 50; n < end; n += 1) {
    const line = JSON.stringify({ id: `${run}-${n}`, text: 'x'.repeat(n % 500) });
    journal.append(n % 5 === 0 ? 'bodies' : 'requests', line);
  }
  await journal.flush();
  process.stdout.write(`${n}\n`);
  await turn();
}

const settled = await journal.settle(8000);
await journal.close(0);
process.stdout.write(settled ? 'settled\n' : 'not settled\n');
