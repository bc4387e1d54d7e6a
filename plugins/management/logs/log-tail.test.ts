import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GatewayError } from '../../../core/pipeline/plugin.ts';
import type { LogPlace, NewLogs } from '../../../core/ports/analytics.ts';
import type { StreamSource } from '../../../core/pipeline/answer.ts';
import { requestRow } from '../../../tests/conformance/analytics-rows.ts';
import { ManualClock, settle } from '../../../tests/conformance/manual-clock.ts';
import { LogFeeds } from './stream.ts';

const leftOut = { from: Date.UTC(2026, 0, 2), to: Date.UTC(2026, 0, 3) };
const found = (place: number, entries = 0, left = 0): NewLogs => ({
  records: Array.from({ length: entries }, () => ({ request: requestRow(), body: undefined })),
  since: `since-${place}`,
  resume: String(place),
  left: left === 0 ? undefined : { count: left, window: leftOut },
});

/** Feeds whose store gives these answers, one after another, and then nothing new. */
function feedsOf(answers: (NewLogs | Error)[]) {
  const clock = new ManualClock();
  const asked: (LogPlace | undefined)[] = [];
  const feeds = new LogFeeds({
    clock,
    analytics: {
      newLogs({ since }) {
        asked.push(since);
        const answer = answers.shift() ?? found(99);
        return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
      },
    },
  });
  return { clock, asked, feeds };
}

/** What a reader gets, and whether it takes more. */
function read(source: StreamSource) {
  const reader = { text: '', isOpen: true, isEnded: false };
  source.pipe({
    data(chunk) {
      reader.text += chunk.toString();
      return reader.isOpen;
    },
    end: () => (reader.isEnded = true),
    fail: (error) => assert.fail(error),
  });
  return reader;
}

const visibility = () => ({ organisationId: 'o' });

/** A tail whose store gives these answers behind the first one, which no test about what follows counts. */
async function started(answers: (NewLogs | Error)[], first = found(0), isGap = false) {
  const all = feedsOf([first, ...answers]);
  const { clock, asked, feeds } = all;
  let ends = 0;
  let refusal: GatewayError | undefined;
  const tail = await feeds.open({
    question: {},
    visibility() {
      if (refusal !== undefined) throw refusal;
      return visibility();
    },
    last: isGap ? { id: 'old', place: undefined } : undefined,
    onEnd: () => (ends += 1),
  });
  asked.splice(0);
  const reader = read(tail);
  await settle();
  return {
    clock,
    tail,
    asked,
    refuse: (error: GatewayError) => (refusal = error),
    /** What the next write finds: whether the reader takes more. */
    block: (blocked: boolean) => (reader.isOpen = !blocked),
    text: () => reader.text,
    events: () => eventsOf(reader.text),
    isEnded: () => reader.isEnded,
    ends: () => ends,
  };
}

/** The events of a stream; of an id, what the store has said. */
function eventsOf(text: string) {
  return text.split('\n\n').flatMap((frame) => {
    const [, name, id, data] = /^event: (\w+)\nid: \d+-(\S+)\ndata: (.*)$/m.exec(frame) ?? [];
    return data === undefined ? [] : [{ name, id, data: JSON.parse(data) as Record<string, unknown> }];
  });
}

const names = (events: readonly { readonly name?: string | undefined }[]) => events.map(({ name }) => name);

test('tells what is new, about once a second, with places to go on from', async () => {
  const { clock, asked, events, text } = await started([found(1, 2), found(2), found(3, 1)], found(0, 1));
  assert.match(text(), /^: .*\nretry: 3000\nid: \d+-0\n\n/);
  assert.deepEqual(names(events()), ['log']);
  await clock.pass(3000);
  assert.deepEqual(asked, ['since-0', 'since-1', 'since-2']);
  // Cut off between two that came together, both come again.
  assert.deepEqual(
    events().map(({ id }) => id),
    ['0', '0', '1', '3'],
  );
});

test('says that it is alive while nothing happens', async () => {
  const { clock, text } = await started([]);
  await clock.pass(46_000);
  assert.equal(text().match(/^: alive\nid: \d+-99$/gm)?.length, 3);
});

test('ends after an hour, and says so', async () => {
  const { clock, events, isEnded, ends } = await started([]);
  await clock.pass(3_600_000 + 1000);
  assert.equal(events().at(-1)?.data['reason'], 'time');
  assert.deepEqual([isEnded(), ends(), clock.waiting], [true, 1, 0]);
});

test('a reader that does not keep up is told how much it missed', async () => {
  const { clock, tail, events, block } = await started([found(1, 18), found(2, 4, 5), found(3, 1)]);
  block(true);
  await clock.pass(2000);
  // The first sixteen, which are written together, filled what there is; of the others nothing is kept.
  assert.deepEqual(names(events()), Array(16).fill('log'));
  block(false);
  tail.resume();
  // Those of which the tail knows no more than their number have times of their own.
  const from = new Date(
    Math.min(leftOut.from, Date.parse(String(events()[0]?.data['created_at']))),
  ).toISOString();
  const { to, ...said } = events().at(-1)?.data ?? {};
  assert.deepEqual(said, { count: 2 + 4 + 5, from });
  assert.ok(Date.parse(String(to)) >= leftOut.to);
  assert.equal(events().at(-1)?.id, '2');
  // Where entries are left out, the store is asked every five seconds.
  await clock.pass(5000);
  assert.deepEqual(names(events().slice(16)), ['skipped', 'log']);
});

test('entries beyond the most that are told at once are counted', async () => {
  const { clock, events } = await started([found(1, 2, 40)]);
  await clock.pass(1000);
  assert.deepEqual(names(events()), ['skipped', 'log', 'log']);
  assert.deepEqual(events()[0]?.data, {
    count: 40,
    from: '2026-01-02T00:00:00.000Z',
    to: '2026-01-03T00:00:00.000Z',
  });
});

test('a client whose place is lost is told so before anything else', async () => {
  const { events } = await started([], found(0, 1), true);
  assert.deepEqual(names(events()), ['gap', 'log']);
});

test('a store that is away is reported, asked less and less often, and gone on with', async () => {
  const away = new GatewayError('store_unavailable', 'It is away.');
  const { clock, asked, events } = await started([away, away, away, new Error('secret'), found(1, 1)]);
  await clock.pass(1000);
  assert.deepEqual(events()[0]?.data, { code: 'store_unavailable', message: 'It is away.', retry_ms: 2000 });
  await clock.pass(2000 + 4000 + 8000);
  assert.deepEqual(
    events().map(({ data }) => data['retry_ms']),
    [2000, 4000, 8000, 16_000],
  );
  assert.doesNotMatch(JSON.stringify(events()), /secret/);
  await clock.pass(16_000);
  assert.equal(events().at(-1)?.name, 'log');
  assert.deepEqual(new Set(asked), new Set(['since-0']));
  await clock.pass(1000);
  assert.equal(asked.at(-1), 'since-1');
});

test('ends when its reader may not read on', async () => {
  const { clock, events, isEnded, ends, asked, refuse } = await started([]);
  refuse(new GatewayError('scope_missing', 'The key is gone.'));
  await clock.pass(5000);
  assert.deepEqual(events(), [
    { name: 'end', id: '0', data: { reason: 'access', message: 'The key is gone.' } },
  ]);
  assert.deepEqual([isEnded(), ends(), asked.length], [true, 1, 0]);
});

test('asks nobody when its reader has left', async () => {
  const { clock, tail, asked, ends } = await started([]);
  await clock.pass(1000);
  tail.cancel();
  tail.cancel();
  tail.finish({ reason: 'time', message: 'x' });
  await clock.pass(60_000);
  assert.deepEqual([asked.length, ends(), clock.waiting], [1, 1, 0]);
});

test('one that had to end before it began ends at once', async () => {
  const { feeds } = feedsOf([]);
  const tail = await feeds.open({ question: {}, visibility, onEnd: () => undefined });
  tail.finish({ reason: 'restart', message: 'x' });
  let ended = false;
  tail.pipe({ data: () => assert.fail('wrote'), end: () => (ended = true), fail: assert.fail });
  assert.ok(ended);
});

test('a log that is too fast is asked for every five seconds, until it is slower', async () => {
  const { clock, asked } = await started([found(1, 2, 40), found(2, 2, 40), found(3, 1)]);
  await clock.pass(11_000);
  assert.deepEqual(asked, ['since-0', 'since-1', 'since-2']);
  await clock.pass(2000);
  assert.equal(asked.length, 5);
});

test('while the store is away no reader begins; one that begins when it is back wakes the others', async () => {
  const away = new GatewayError('store_unavailable', 'It is away.');
  const { clock, asked, feeds } = feedsOf([found(0), away, away, found(5), found(6, 1)]);
  const part = { question: {}, visibility, onEnd: () => undefined };
  const first = read(await feeds.open(part));
  await clock.pass(1000);
  await assert.rejects(feeds.open(part), { code: 'store_unavailable' });
  const second = read(await feeds.open(part));
  await clock.pass(0);
  assert.deepEqual(asked, [undefined, 'since-0', undefined, undefined, 'since-0']);
  assert.deepEqual(names(eventsOf(first.text)), ['problem', 'log']);
  assert.deepEqual(names(eventsOf(second.text)), ['log']);
});
