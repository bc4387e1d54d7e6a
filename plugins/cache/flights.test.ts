import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { Flights, type Flight, type Landing } from './answer-cache.ts';
import type { StoredAnswer } from './stored-answer.ts';

const answer: StoredAnswer = {
  form: 'json',
  headers: [],
  body: Buffer.from('{}'),
  model: 'm',
  finishReason: 'stop',
  usage: undefined,
  tellsUsage: false,
  askedAt: 0,
  storedAt: 0,
};

/** A client that stays until it is told to leave. */
class Client {
  aborted = false;
  listeners = 0;
  private run: (() => void) | undefined;

  onAbort(run: () => void): () => void {
    this.run = run;
    this.listeners++;
    return () => void this.listeners--;
  }

  leave(): void {
    this.aborted = true;
    this.run?.();
  }
}

function begin() {
  const clock = new ManualClock();
  const flights = new Flights();
  const flight = flights.takeOff('k');
  const landed: (readonly [string, Landing])[] = [];
  const follow = (name: string, client = new Client(), waitMs = 1000): Client => {
    void flight.follow(clock, waitMs, client)?.then((landing) => landed.push([name, landing]));
    return client;
  };
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  return { clock, flights, flight, landed, follow, turn };
}

test('who asks the same finds the call; who asks something else does not', () => {
  const { flights, flight } = begin();
  assert.equal(flights.find('k'), flight);
  assert.equal(flights.find('other'), undefined);
});

const endings: readonly (readonly [string, (flight: Flight) => void, Landing])[] = [
  ['an answer reaches everybody', (flight) => flight.land(answer), { answer, similarity: undefined }],
  ['and what it answers', (flight) => flight.land(answer, 0.97), { answer, similarity: 0.97 }],
  ['a release lets everybody go, at once', (flight) => flight.release(), undefined],
];
for (const [name, end, landing] of endings) {
  test(name, async () => {
    const { clock, flights, flight, landed, follow, turn } = begin();
    const clients = [follow('a'), follow('b'), follow('c')];
    end(flight);
    await turn();
    assert.deepEqual(landed, [
      ['a', landing],
      ['b', landing],
      ['c', landing],
    ]);
    assert.equal(flights.find('k'), undefined, 'the next one calls again');
    assert.equal(clock.waiting, 0);
    assert.equal(clients[0]?.listeners, 0);
  });
}

test('a leader that leaves hands over to one, and the others wait for that one', async () => {
  const { flights, flight, landed, follow, turn } = begin();
  for (const name of ['a', 'b', 'c']) follow(name);
  flight.handOver();
  await turn();
  assert.deepEqual(landed, [['a', flight]]);
  assert.equal(flights.find('k'), flight);
  flight.land(answer);
  await turn();
  assert.deepEqual(landed.slice(1), [
    ['b', { answer, similarity: undefined }],
    ['c', { answer, similarity: undefined }],
  ]);
});

test('handing over where nobody waits ends the call', () => {
  const { flights, flight } = begin();
  flight.handOver();
  assert.equal(flights.find('k'), undefined);
});

test('an ended call does not end the next one', async () => {
  const { flights, flight, landed, follow, turn } = begin();
  flight.release();
  const next = flights.takeOff('k');
  flight.release();
  flight.land(answer);
  flight.handOver();
  assert.equal(flights.find('k'), next);
  follow('late');
  await turn();
  assert.deepEqual(landed, []);
});

test('nobody waits longer than told, and the others wait on', async () => {
  const { clock, flight, landed, follow, turn } = begin();
  follow('short', new Client(), 100);
  follow('long', new Client(), 1000);
  clock.advance(100);
  await turn();
  assert.deepEqual(landed, [['short', undefined]]);
  flight.land(answer);
  await turn();
  assert.deepEqual(landed[1], ['long', { answer, similarity: undefined }]);
});

test('a follower that leaves is not handed the lead', async () => {
  const { clock, flight, landed, follow, turn } = begin();
  const leaving = follow('a');
  follow('b');
  leaving.leave();
  flight.handOver();
  await turn();
  assert.deepEqual(landed, [
    ['a', undefined],
    ['b', flight],
  ]);
  flight.release();
  assert.equal(clock.waiting, 0);
});

test('a client that has left already does not wait', async () => {
  const { clock, flight } = begin();
  const gone = new Client();
  gone.leave();
  assert.equal(await flight.follow(clock, 1000, gone), undefined);
  assert.equal(clock.waiting, 0);
});

test('so many wait and no more', () => {
  const { clock, flight } = begin();
  for (let i = 0; i < 256; i++) assert.ok(flight.follow(clock, 1000, new Client()));
  assert.equal(flight.follow(clock, 1000, new Client()), undefined);
});
