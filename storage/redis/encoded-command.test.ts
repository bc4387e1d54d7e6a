import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import { recordingLog } from '../../core/lifecycle/recording-services.test-support.ts';
import { patientClock, redisMissing, type RedisServer, startRedis } from '../../tests/kit/redis-server.ts';
import { type EncodedCommand, encodeCount, encodeParts } from './encoded-command.ts';
import { openRedis } from './open-redis.ts';

let server: RedisServer;

async function begin(t: TestContext) {
  const redis = await openRedis({ url: server.url, clock: patientClock(), log: recordingLog([]) });
  t.after(() => redis.close());
  return redis;
}

function command(...parts: [string, ...(string | number)[]]): EncodedCommand {
  return { name: parts[0].toLowerCase(), bytes: encodeCount(parts.length) + encodeParts(parts) };
}

describe('an encoded command', { skip: redisMissing }, () => {
  before(async () => {
    server = await startRedis();
  });
  after(() => server.stop());

  test('arrives as it was meant, whatever is in its parts', async (t) => {
    const redis = await begin(t);
    for (const value of ['', 'plain', 'line\r\n$3\r\nend', 'Größe 模型 😀', 12.5]) {
      assert.deepEqual(await redis.send(command('ECHO', value)), Buffer.from(String(value)));
    }
    assert.deepEqual(
      await redis.send({ ...command('ECHO', 'a'), bytes: Buffer.from('*1\r\n$4\r\nPING\r\n') }),
      Buffer.from('PONG'),
    );
  });

  test('is answered with texts as buffers, numbers, nothing, and lists of these', async (t) => {
    const redis = await begin(t);
    assert.equal(await redis.send(command('GET', 'nothing-there')), null);
    assert.equal(await redis.send(command('INCRBY', 'number', 7)), 7);
    assert.deepEqual(await redis.send(command('MGET', 'number', 'nothing-there')), [Buffer.from('7'), null]);
  });

  test('gets its own answer among all kinds of commands of one turn', async (t) => {
    const redis = await begin(t);
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, i) => {
        const text = `text-${i}`;
        if (i % 3 === 0) return redis.call((client) => client.echo(text));
        if (i % 7 === 0) return redis.call((client) => client.multi().echo(text).exec());
        return redis.send(command('ECHO', text));
      }),
    );
    assert.deepEqual(
      answers.map((answer) => String(Array.isArray(answer) ? (answer[0] as unknown[])[1] : answer)),
      answers.map((_, i) => `text-${i}`),
    );
  });

  test('that the server refuses fails with what it says and without what was sent', async (t) => {
    const redis = await begin(t);
    await redis.send(command('SET', 'a-text', 'text'));
    const refused = redis.send(command('INCRBY', 'a-text', 4711));
    await assert.rejects(refused, (error: Error) => {
      assert.match(error.message, /not an integer/);
      assert.doesNotMatch(JSON.stringify(error), /4711/);
      return true;
    });
  });

  test('may say what is sent in its place when it is refused, which then counts', async (t) => {
    const redis = await begin(t);
    const asked: string[] = [];
    const instead = ({ message }: Error): EncodedCommand | undefined => {
      asked.push(message);
      return message.startsWith('WRONGTYPE') ? command('ECHO', 'in its place') : undefined;
    };
    await redis.send(command('SET', 'b-text', 'text'));
    const wrong = { ...command('LPUSH', 'b-text', 'x'), instead };
    assert.deepEqual(await redis.send(wrong), Buffer.from('in its place'));
    await assert.rejects(redis.send({ ...command('NONSENSE'), instead }), /unknown command/);
    assert.equal(asked.length, 2);
  });
});
