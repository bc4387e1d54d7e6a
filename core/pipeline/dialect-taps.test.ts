import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { JsonObject } from '../../adapters/dialects/json-reading.ts';
import type { Received } from '../../tests/kit/http-kit.ts';
import {
  callers,
  changing,
  gatewayWith,
  heardBy,
  holding,
  original,
  tapping,
  targets,
  type Caller,
} from './every-dialect.test-support.ts';
import { definePlugin, GatewayError, type AnyPlugin, type StreamEvent } from './plugin.ts';

/** Takes text back a piece at a time: each leaves with the next one. */
const lagging = (name: string): AnyPlugin =>
  tapping(name, () => {
    let kept: StreamEvent | undefined;
    return {
      event(event, emit) {
        if (event.type !== 'text-delta') return emit(event);
        if (kept !== undefined) emit(kept);
        kept = event;
      },
      end: (emit) => (kept === undefined ? undefined : emit(kept)),
    };
  });

const upper = (text: string): string => text.toUpperCase();
/** Words of the original that must not be read anywhere once all letters are capitals. */
const words = ['Danube', 'through', 'Vienna', 'Budapest', 'Belgra', 'stays'];

/** Only the text that was wanted is heard, and nothing else of the original stands anywhere in the bytes. */
function assertRewritten(caller: Caller, answer: Received, wanted: string, where: string): void {
  const heard = heardBy(caller, answer);
  assert.deepEqual([heard.problems, heard.text, heard.ended], [[], wanted, true], where);
  for (const word of words) assert.ok(!answer.text.includes(word), `${where}: ${word}\n${answer.text}`);
}

for (const caller of callers) {
  describe(`${caller.name} clients`, () => {
    const rewriting: readonly (readonly [string, readonly AnyPlugin[], string])[] = [
      ['a tap that rewrites', [changing('one', upper)], original.toUpperCase()],
      ['a tap that holds everything', [holding('one', upper)], original.toUpperCase()],
      ['a tap that lags behind', [changing('two', upper), lagging('one')], original.toUpperCase()],
      [
        'two that rewrite, each what the other wrote',
        [changing('second', (text) => text.replaceAll('A', '#')), changing('first', upper)],
        original.toUpperCase().replaceAll('A', '#'),
      ],
      [
        'one that rewrites what one held',
        [changing('second', (text) => text.replaceAll('A', '#')), holding('first', upper)],
        original.toUpperCase().replaceAll('A', '#'),
      ],
      ['a tap that takes the text out', [changing('one', () => '')], ''],
    ];
    for (const [what, plugins, wanted] of rewriting) {
      test(`${what}: nothing of the original is left`, async (t) => {
        const { ask } = await gatewayWith(t, plugins);
        for (const target of targets) {
          const answer = await ask(caller, target);
          assert.equal(answer.status, 200, answer.text);
          assertRewritten(caller, answer, wanted, `${caller.name} at ${target}`);
        }
      });
    }

    test('a tap that changes nothing changes no byte', async (t) => {
      const plain = await gatewayWith(t, []);
      const passing = tapping('passing', () => ({ event: (event, emit) => emit(event) }));
      const copying = changing('copying', (text) => text);
      for (const fixture of ['grid-text', 'grid-parallel-tools', 'grid-reasoning', 'grid-citations']) {
        const one = await gatewayWith(t, [passing], fixture);
        const two = await gatewayWith(t, [copying, passing], fixture);
        const none = fixture === 'grid-text' ? plain : await gatewayWith(t, [], fixture);
        const expected = (await none.ask(caller, caller.dialect)).text;
        assert.equal((await one.ask(caller, caller.dialect)).text, expected, fixture);
        assert.equal((await two.ask(caller, caller.dialect)).text, expected, fixture);
      }
    });

    test('a refusal in the middle is an error of the wire, and the rest does not leave', async (t) => {
      const refusing = tapping('refusing', () => {
        let said = '';
        return {
          event(event, emit) {
            if (event.type === 'text-delta') said += event.text;
            if (/Buda/.test(said)) throw new GatewayError('hooks_failed', 'Not this city.');
            emit(event);
          },
        };
      });
      const { ask, gateway } = await gatewayWith(t, [refusing]);
      for (const [at, target] of targets.entries()) {
        const answer = await ask(caller, target);
        assert.doesNotMatch(answer.text, /Belgr|stays/);
        assert.match(answer.text, /Not this city\./);
        if (answer.status === 200) {
          assert.equal(heardBy(caller, answer).error, 'Not this city.', `${target}: ${answer.text}`);
          assert.equal(heardBy(caller, answer).ended, false);
        } else assert.equal(answer.status, 446);
        assert.equal((await gateway.untilSettled(at + 1)).outcome.error?.code, 'hooks_failed');
      }
    });

    test('a plugin that holds the stream judges the whole and replays it, changed or not', async (t) => {
      const texts: string[] = [];
      const hold = definePlugin({
        name: 'hold',
        capabilities: { stream: 'hold' },
        create: () => ({
          response({ response }) {
            texts.push(JSON.stringify(response.json));
          },
        }),
      });
      const changes = definePlugin({
        name: 'changes',
        capabilities: { stream: 'hold' },
        create: () => ({
          response({ response }) {
            const json = JSON.parse(upperTexts(response.text)) as JsonObject;
            for (const [name, value] of Object.entries(json)) response.set([name], value as never);
          },
        }),
      });
      const judged = await gatewayWith(t, [hold]);
      const changed = await gatewayWith(t, [changes]);
      for (const target of targets) {
        texts.length = 0;
        assert.equal(heardBy(caller, await judged.ask(caller, target)).text, original);
        assert.match(texts.join(), /Danube flows through Vienna, Budapest and Belgrade/);
        const answer = await changed.ask(caller, target);
        assertRewritten(caller, answer, upperDanube, `${caller.name} at ${target}`);
      }
    });

    test('a call that is taken out or renamed is so everywhere', async (t) => {
      const calls = (change: (event: StreamEvent) => StreamEvent | undefined): AnyPlugin =>
        tapping('calls', () => ({
          event(event, emit) {
            const told = event.type === 'tool-arguments-delta' ? change(event) : event;
            if (told !== undefined) emit(told);
          },
        }));
      const plain = await gatewayWith(t, [], 'grid-parallel-tools');
      const without = await gatewayWith(t, [calls(() => undefined)], 'grid-parallel-tools');
      const renamed = await gatewayWith(
        t,
        [calls((event) => ('name' in event && event.name !== '' ? { ...event, name: 'other' } : event))],
        'grid-parallel-tools',
      );
      for (const target of targets) {
        const before = heardBy(caller, await plain.ask(caller, target));
        assert.equal(before.calls.length > 1, true);
        const after = heardBy(caller, await without.ask(caller, target));
        assert.deepEqual([after.calls, after.text], [[], before.text], target);
        const other = heardBy(caller, await renamed.ask(caller, target));
        assert.deepEqual(
          other.calls.map(({ name, arguments: text }) => [name, JSON.parse(text)]),
          before.calls.map(({ arguments: text }) => ['other', JSON.parse(text)]),
          target,
        );
      }
    });
  });
}

const upperDanube = original.replace(/Danube|through|Vienna|Budapest|Belgrade|stays/g, upper);
const upperTexts = (json: string): string =>
  json.replace(/Danube|through|Vienna|Budapest|Belgrade|stays/g, upper);
