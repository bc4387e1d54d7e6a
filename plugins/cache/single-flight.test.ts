import assert from 'node:assert/strict';
import http, { type ServerResponse } from 'node:http';
import { describe, test, type TestContext } from 'node:test';
import { frame, delta, done, finish } from '../../tests/kit/chat-stream-kit.ts';
import { begin, until } from '../../tests/kit/http-kit.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { asking, cachedGateway, completion, type CachedOptions } from '../../tests/kit/cache-kit.ts';

/** A provider that answers when the test says so. */
async function held(t: TestContext, options: CachedOptions = {}) {
  const calls: ServerResponse[] = [];
  const parts = await cachedGateway(t, {
    ...options,
    answer: (_request, response) => void calls.push(response),
  });
  const { attempts } = parts;
  return {
    ...parts,
    calls,
    /** So many requests have come to the cache. */
    arrived: (count: number) => until(() => attempts() === count, `${count} requests at the cache`),
    called: (count: number) => until(() => calls.length === count, `${count} calls`),
    answer(at: number, status = 200) {
      const response = calls[at] as ServerResponse;
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(
        JSON.stringify(status === 200 ? completion(`answer ${at + 1}`) : { error: { message: 'no' } }),
      );
    },
  };
}

const times = <T>(count: number, make: () => Promise<T>): Promise<T>[] => Array.from({ length: count }, make);

describe('requests that ask the same at the same time', () => {
  test('make one call, and are hits', async (t) => {
    const { told, arrived, called, answer, calls, gateway } = await held(t);
    const all = times(5, told);
    await arrived(5);
    await called(1);
    answer(0);
    assert.deepEqual((await Promise.all(all)).sort(), [
      ...Array<string>(4).fill('HIT answer 1'),
      'MISS answer 1',
    ]);
    assert.equal(calls.length, 1);
    await gateway.untilSettled(5);
    assert.equal(gateway.settled.filter(({ facts }) => facts.usage !== undefined).length, 1);
  });

  test('do not wait for what is asked by another workspace, or not wanted from the cache', async (t) => {
    const { told, called, answer } = await held(t);
    const all = [
      told(),
      told({ headers: { 'x-service-api-key': 'wk_two' } }),
      told({ headers: { 'x-service-cache-force-refresh': 'true' } }),
      told({ headers: { 'x-service-debug': 'false' } }),
    ];
    await called(4);
    for (let i = 0; i < 4; i++) answer(i);
    await Promise.all(all);
  });

  test('go on by themselves, all at once, when the answer is none to share', async (t) => {
    const { told, arrived, called, answer } = await held(t);
    const all = times(4, told);
    await arrived(4);
    await called(1);
    answer(0, 429);
    await called(4);
    for (const at of [1, 2, 3]) answer(at);
    const kinds = (await Promise.all(all)).map((one) => one.replace(/\d+$/, ''));
    assert.deepEqual(kinds.sort(), ['MISS ', 'MISS answer ', 'MISS answer ', 'MISS answer ']);
  });

  test('go on by themselves when the call fails', async (t) => {
    const { told, arrived, called, answer, calls } = await held(t);
    const all = times(3, told);
    await arrived(3);
    await called(1);
    calls[0]?.destroy();
    await called(3);
    answer(1);
    answer(2);
    assert.equal((await Promise.all(all)).filter((one) => one.startsWith('MISS answer')).length, 2);
  });

  test('wait no longer than max_wait_ms', async (t) => {
    const clock = new ManualClock();
    const { told, arrived, called, answer } = await held(t, { clock, cache: { max_wait_ms: 5000 } });
    const all = times(3, told);
    await arrived(3);
    await called(1);
    clock.advance(4999);
    clock.advance(1);
    await called(3);
    for (let i = 0; i < 3; i++) answer(i);
    for (const one of await Promise.all(all)) assert.match(one, /^MISS answer/);
  });

  test('make a call each with max_wait_ms: 0', async (t) => {
    const { told, called, answer } = await held(t, { cache: { max_wait_ms: 0 } });
    const all = times(3, told);
    await called(3);
    for (let i = 0; i < 3; i++) answer(i);
    await Promise.all(all);
    assert.match(await told(), /^HIT answer/);
  });
});

describe('a leader that leaves', () => {
  test('while its call is on its way: one follower calls again, for all of them', async (t) => {
    const { gateway, told, arrived, called, answer, calls, upstream } = await held(t);
    const leader = startedLeader(gateway.url);
    await called(1);
    const followers = times(3, told);
    await arrived(4);
    leader.destroy();
    await called(2);
    answer(1);
    assert.deepEqual((await Promise.all(followers)).sort(), [
      'HIT answer 2',
      'HIT answer 2',
      'MISS answer 2',
    ]);
    assert.equal(calls.length, 2);
    await until(() => upstream.requests[0]?.cut === true, 'the end of the first call');
  });

  test('in the middle of its stream: the same', async (t) => {
    const { gateway, told, arrived, called, answer, calls } = await held(t);
    const body = { stream: true };
    const opening = begin(gateway.url, asking({ body }));
    await called(1);
    calls[0]?.writeHead(200, { 'content-type': 'text/event-stream' }).write(delta('answer 1'));
    const { request } = await opening;
    const followers = times(2, told);
    await arrived(3);
    request.destroy();
    await called(2);
    answer(1);
    assert.deepEqual((await Promise.all(followers)).sort(), ['HIT answer 2', 'MISS answer 2']);
  });

  test('a follower that leaves disturbs nobody, and is not given the lead', async (t) => {
    const { gateway, told, arrived, called, answer, calls } = await held(t);
    const leader = startedLeader(gateway.url);
    await called(1);
    const leaving = startedLeader(gateway.url);
    await arrived(2);
    const staying = told();
    await arrived(3);
    leaving.destroy();
    await gateway.untilSettled(1);
    leader.destroy();
    await called(2);
    answer(1);
    assert.equal(await staying, 'MISS answer 2');
    assert.equal(calls.length, 2);
  });
});

/** A request whose answer nobody waits for. */
function startedLeader(url: string): http.ClientRequest {
  const { path, headers, body } = asking({});
  const sent = http.request(`${url}${path}`, { method: 'POST', headers, agent: false });
  sent.on('error', () => undefined);
  sent.end(JSON.stringify(body));
  return sent;
}

test('followers of a stream get it when it is whole, and its leader as it comes', async (t) => {
  const { gateway, told, arrived, called, calls } = await held(t);
  const opening = begin(gateway.url, asking({ body: { stream: true } }));
  await called(1);
  calls[0]?.writeHead(200, { 'content-type': 'text/event-stream' }).write(delta('answer 1'));
  const { response } = await opening;
  const first = await new Promise<Buffer>((resolve) => response.once('data', resolve));
  assert.equal(first.toString(), delta('answer 1'), 'before the provider has said the rest');
  const followers = times(2, told);
  await arrived(3);
  calls[0]?.end(finish + frame({ id: 'c', choices: [] }) + done);
  assert.deepEqual(await Promise.all(followers), ['HIT answer 1', 'HIT answer 1']);
});
