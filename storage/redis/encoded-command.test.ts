import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import { recordingLog } from '../../core/lifecycle/recording-services.test-support.ts';
import { patientClock, redisMissing, type RedisServer, startRedis } from '../../tests/kit/redis-server.ts';
import { type EncodedCommand, encodedCommands, type RedisReply } from './encoded-command.ts';
import { openRedis } from './open-redis.ts';
import type { RedisConnection } from './redis-connection.ts';

let server: RedisServer;

async function begin(t: TestContext) {
  const redis = await openRedis({ url: server.url, clock: patientClock(), log: recordingLog([]) });
  t.after(() => redis.close());
  return redis;
}

function command(...parts: [string, ...(string | number)[]]): EncodedCommand {
  return {
    name: parts[0].toLowerCase(),
    bytes: encodedCommands.count(parts.length) + encodedCommands.parts(parts),
  };
}

/** The answer as it came. */
function ask(redis: RedisConnection, one: EncodedCommand): Promise<RedisReply> {
  return redis.send<RedisReply>(one, { read: (reply) => reply, without: (error) => Promise.reject(error) });
}

describe('an encoded command', { skip: redisMissing }, () => {
  before(async () => {
    server = await startRedis();
  });
  after(() => server.stop());

  test('arrives as it was meant, whatever is in its parts', async (t) => {
    const redis = await begin(t);
    for (const value of ['', 'plain', 'line\r\n$3\r\nend', 'Größe 模型 😀', 12.5]) {
      assert.deepEqual(await ask(redis, command('ECHO', value)), Buffer.from(String(value)));
    }
    assert.deepEqual(
      await ask(redis, { ...command('ECHO', 'a'), bytes: Buffer.from('*1\r\n$4\r\nPING\r\n') }),
      Buffer.from('PONG'),
    );
  });

  test('is answered with texts as buffers, numbers, nothing, and lists of these', async (t) => {
    const redis = await begin(t);
    assert.equal(await ask(redis, command('GET', 'nothing-there')), null);
    assert.equal(await ask(redis, command('INCRBY', 'number', 7)), 7);
    assert.deepEqual(await ask(redis, command('MGET', 'number', 'nothing-there')), [Buffer.from('7'), null]);
  });

  test('gets its own answer among all kinds of commands of one turn', async (t) => {
    const redis = await begin(t);
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, i) => {
        const text = `text-${i}`;
        if (i % 3 === 0) return redis.call((client) => client.echo(text));
        if (i % 7 === 0) return redis.call((client) => client.multi().echo(text).exec());
        return ask(redis, command('ECHO', text));
      }),
    );
    assert.deepEqual(
      answers.map((answer) => String(Array.isArray(answer) ? (answer[0] as unknown[])[1] : answer)),
      answers.map((_, i) => `text-${i}`),
    );
  });

  test('of any length gets its own answer among the others of its turn', async (t) => {
    const redis = await begin(t);
    const texts = [0, 70_000, 1, 16_385, 100, 16_384, 40_000, 30_000, 300_000, 5, 65_536].map((length, i) =>
      String.fromCodePoint(0xe0 + i).repeat(length),
    );
    const answers = await Promise.all(
      texts.map((text, i) => {
        const { name, bytes } = command('ECHO', text);
        const whole = Buffer.from(bytes);
        const at = Math.min(whole.length - 1, 40);
        const parts = { name, head: whole.subarray(0, at), bytes: whole.subarray(at) };
        return ask(redis, i % 2 === 0 ? parts : { name, bytes });
      }),
    );
    assert.deepEqual(answers.map(String), texts);
  });

  test('that the server refuses fails with what it says and without what was sent', async (t) => {
    const redis = await begin(t);
    await ask(redis, command('SET', 'a-text', 'text'));
    const refused = ask(redis, command('INCRBY', 'a-text', 4711));
    await assert.rejects(refused, (error: Error) => {
      assert.match(error.message, /not an integer/);
      assert.doesNotMatch(JSON.stringify(error), /4711/);
      return true;
    });
  });

  test('whose answer cannot be read fails alone', async (t) => {
    const redis = await begin(t);
    const read = (): never => {
      throw new Error('unreadable');
    };
    const failing = redis.send(command('ECHO', 'a'), { read, without: () => assert.fail('it was answered') });
    const next = ask(redis, command('ECHO', 'b'));
    await assert.rejects(failing, /unreadable/);
    assert.deepEqual(await next, Buffer.from('b'));
  });

  test('may say what is sent in its place when it is refused, which then counts', async (t) => {
    const redis = await begin(t);
    const asked: string[] = [];
    const instead = ({ message }: Error): EncodedCommand | undefined => {
      asked.push(message);
      return message.startsWith('WRONGTYPE') ? command('ECHO', 'in its place') : undefined;
    };
    await ask(redis, command('SET', 'b-text', 'text'));
    const wrong = { ...command('LPUSH', 'b-text', 'x'), instead };
    assert.deepEqual(await ask(redis, wrong), Buffer.from('in its place'));
    await assert.rejects(ask(redis, { ...command('NONSENSE'), instead }), /unknown command/);
    assert.equal(asked.length, 2);
  });
});
