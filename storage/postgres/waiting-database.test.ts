import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { ManualClock, settle } from '../../tests/conformance/manual-clock.ts';
import { ResourcesStartError, type Database } from './database.ts';
import { openDatabaseWhenReachable } from './waiting-database.ts';

const label = 'db.internal:5432/weir';
const failure = (reason: string, lasting = false): ResourcesStartError =>
  new ResourcesStartError(label, { reason, remedy: 'Do this.', lasting }, undefined);
const isAway = (reason: RegExp) => (error: unknown) =>
  GatewayError.is(error) && error.code === 'store_unavailable' && reason.test(error.message);

class FakeDatabase implements Database {
  readonly embedded = false;
  readonly isBusy = true;
  readonly looks = new Map<string, () => void>();
  pings = 0;
  closed = 0;
  query = (): Promise<never> => Promise.resolve('asked' as never);
  transaction = (): Promise<never> => Promise.resolve('committed' as never);
  listen(channel: string, look: () => void): () => void {
    this.looks.set(channel, look);
    return () => this.looks.delete(channel);
  }
  async ping(): Promise<void> {
    this.pings += 1;
  }
  async close(): Promise<void> {
    this.closed += 1;
  }
}

/** Opens as the script says, one entry for each attempt and the last one for ever; without it with success. */
function scripted(...script: (Error | Promise<Database> | undefined)[]) {
  return scriptedWith(undefined, script);
}

function scriptedWith(
  openingPatienceMs: number | undefined,
  script: (Error | Promise<Database> | undefined)[],
) {
  const clock = new ManualClock();
  const lines: string[] = [];
  const write = (level: string) => (message: string) => void lines.push(`${level}: ${message}`);
  const log = {
    debug: write('debug'),
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
    child: () => log,
  };
  const store = new FakeDatabase();
  let attempts = 0;
  const open = (): Promise<Database> => {
    const next = script[Math.min(attempts, script.length - 1)];
    attempts += 1;
    return next instanceof Error ? Promise.reject(next) : (next ?? Promise.resolve(store));
  };
  const opening = openDatabaseWhenReachable({ label, clock, log, open, openingPatienceMs });
  opening.catch(() => undefined);
  return { opening, clock, lines, store, attempts: () => attempts };
}

test('a server that answers is used at once', async () => {
  const { opening, clock, lines, store } = scripted();
  const database = await opening;
  await database.ping();
  assert.deepEqual(
    [await database.query(async () => 1), await database.transaction(async () => 1), database.isBusy],
    ['asked', 'committed', true],
  );
  const stop = database.listen('changes', () => undefined);
  assert.equal(store.looks.size, 1);
  stop();
  await database.close();
  assert.deepEqual(
    [store.pings, store.looks.size, store.closed, clock.waiting, lines.length],
    [1, 0, 1, 0, 0],
  );
});

test('one that comes within the start is waited for, without a word', async () => {
  const away = failure('nobody there');
  const { opening, clock, lines, attempts } = scripted(away, away, undefined);
  await clock.pass(1000);
  await (await opening).ping();
  assert.deepEqual([attempts(), lines.length], [3, 0]);
});

test('the start goes on after five seconds; then it is tried again at growing distances', async () => {
  const { opening, clock, attempts } = scripted(failure('nobody there'));
  let isOpen = false;
  void opening.then(() => (isOpen = true));
  await clock.pass(4999);
  assert.equal(isOpen, false);
  await clock.pass(1);
  assert.equal(isOpen, true);
  const distances: number[] = [];
  for (let i = 0; i < 9; i += 1) {
    const before = attempts();
    const since = clock.now();
    while (attempts() === before) await clock.pass(clock.nextIn ?? assert.fail('nothing is tried any more'));
    distances.push(clock.now() - since);
  }
  const bounds = [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000, 30_000];
  for (const [i, ms] of distances.entries()) {
    assert.ok(ms <= (bounds[i] as number), `${i}: ${ms}`);
    assert.ok(ms >= (bounds[i] as number) / 2, `${i}: ${ms}`);
  }
});

test('while it is away everything is refused with the place and what goes on, and the log tells of it once', async () => {
  const { opening, clock, lines } = scripted(failure('nobody there'), failure('it is starting'));
  await clock.pass(5000);
  const database = await opening;
  await clock.pass(300_000);
  const refused = isAway(
    /^The resources store \(db\.internal:5432\/weir\) cannot be opened: it is starting\. Do this\. Meanwhile requests are served with the owner's key/,
  );
  await assert.rejects(database.ping(), refused);
  await assert.rejects(
    database.query(async () => 1),
    refused,
  );
  await assert.rejects(
    database.transaction(async () => 1),
    refused,
  );
  assert.equal(database.isBusy, false);
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? '', /^warn: The resources store \(db\.internal/);
});

test('who listened before it was there listens then, and is told that something may have changed', async () => {
  const away = failure('nobody there');
  const { opening, clock, lines, store } = scripted(...Array<Error>(12).fill(away), undefined);
  await clock.pass(5000);
  const database = await opening;
  const looks: string[] = [];
  const stop = database.listen('changes', () => looks.push('changes'));
  database.listen('gone', () => looks.push('gone'))();
  await clock.pass(30_000);
  assert.deepEqual(looks, ['changes']);
  store.looks.get('changes')?.();
  assert.deepEqual([looks, store.looks.size], [['changes', 'changes'], 1]);
  stop();
  assert.equal(store.looks.size, 0);
  await database.ping();
  assert.equal(clock.waiting, 0);
  assert.deepEqual(
    lines.map((line) => line.slice(0, 4)),
    ['warn', 'info'],
  );
});

test('what waiting cannot mend ends the start', async () => {
  const lasting = failure('wrong password', true);
  await assert.rejects(scripted(lasting).opening, lasting);
  const later = scripted(failure('away'), lasting);
  await later.clock.pass(500);
  await assert.rejects(later.opening, lasting);
  assert.equal(later.clock.waiting, 0);
  const unknown = new Error('a file of the migrations is gone');
  await assert.rejects(scripted(unknown).opening, unknown);
});

test('found later, it is an error in the log, refused with that sentence and tried seldom, until it is mended', async () => {
  const script = [
    ...Array<Error>(11).fill(failure('away')),
    ...Array<Error>(3).fill(failure('old schema', true)),
  ];
  const { opening, clock, lines, attempts } = scripted(...script, new Error('odd: secret'), undefined);
  await clock.pass(5000);
  const database = await opening;
  await clock.pass(1000);
  const before = attempts();
  await assert.rejects(database.ping(), isAway(/old schema\. Do this\. Meanwhile/));
  await clock.pass(14_000);
  assert.equal(attempts(), before);
  await clock.pass(90_000);
  await clock.pass(60_000);
  await database.ping();
  assert.deepEqual(
    lines.map((line) => /^\w+: .*?(away|old schema|log tells|works again)/.exec(line)?.[0].split(':')[0]),
    ['warn', 'error', 'error', 'info'],
  );
  assert.ok(!lines.join().includes('secret'));
});

test('a server that says nothing delays the start by five seconds and may still answer, also with no', async () => {
  let answer: (store: Database) => void = () => undefined;
  const { opening, clock, lines, store } = scripted(new Promise((resolve) => (answer = resolve)));
  await clock.pass(5000);
  const database = await opening;
  await assert.rejects(database.ping(), isAway(/\(db\.internal:5432\/weir\) is not open yet/));
  assert.equal(lines.length, 1);
  answer(store);
  await settle();
  await database.ping();

  let refuse: (error: Error) => void = () => undefined;
  const other = scripted(new Promise((_, reject) => (refuse = reject)));
  await other.clock.pass(5000);
  const late = await other.opening;
  refuse(failure('wrong password', true));
  await settle();
  await assert.rejects(late.ping(), isAway(/wrong password/));
});

test('a store that is being opened is waited for longer where that is asked for; one that is away is not', async () => {
  let opened: (database: Database) => void = () => undefined;
  const slow = new Promise<Database>((resolve) => {
    opened = resolve;
  });
  const busy = scriptedWith(60_000, [slow]);
  await busy.clock.pass(20_000);
  opened(busy.store);
  await (await busy.opening).ping();
  assert.deepEqual([busy.store.pings, busy.lines.length], [1, 0]);

  const silent = scriptedWith(60_000, [new Promise(() => undefined)]);
  await silent.clock.pass(60_000);
  await assert.rejects((await silent.opening).ping(), isAway(/is not open yet/));

  const away = scriptedWith(60_000, [failure('nobody there')]);
  await away.clock.pass(5000);
  await assert.rejects((await away.opening).ping(), isAway(/nobody there/i));
});

test('closed while it waits, it tries no more; a store that opens after that is closed', async () => {
  const waiting = scripted(failure('away'));
  await waiting.clock.pass(5000);
  await (await waiting.opening).close();
  assert.equal(waiting.clock.waiting, 0);
  await assert.rejects((await waiting.opening).ping(), isAway(/stopping/));
  let answer: (store: Database) => void = () => undefined;
  const late = scripted(new Promise((resolve) => (answer = resolve)));
  await late.clock.pass(5000);
  await (await late.opening).close();
  answer(late.store);
  await settle();
  assert.deepEqual([late.store.closed, late.clock.waiting], [1, 0]);
});
