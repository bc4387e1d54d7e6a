import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Journal, JournalRoom } from '../ports/journal.ts';
import logger from '../../plugins/logger/index.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send, startUpstream } from '../../tests/kit/http-kit.ts';
import { TestJournal } from '../../tests/kit/plugin-kit.ts';
import type { RequestRow } from '../ports/request-row.ts';
import { definePlugin, type RequestContext } from './plugin.ts';

/** A journal that has room only when the test says so. */
class FullJournal extends TestJournal implements Journal {
  isFull = true;
  asked = 0;
  private waiting: { resolve: () => void; reject: (error: Error) => void }[] = [];

  override room(): JournalRoom {
    return { ...super.room(), policy: 'block' };
  }

  override admit(): Promise<void> | undefined {
    this.asked += 1;
    if (!this.isFull) return undefined;
    return new Promise((resolve, reject) => this.waiting.push({ resolve, reject }));
  }

  makeRoom(): void {
    this.isFull = false;
    for (const { resolve } of this.waiting.splice(0)) resolve();
  }

  giveUp(): void {
    for (const { reject } of this.waiting.splice(0)) reject(new GatewayError('journal_full', 'No room.'));
  }
}

async function start(t: TestContext) {
  const upstream = await startUpstream(t, (_, response) => void response.end('{"ok":1}'));
  const journal = new FullJournal();
  const seen: string[] = [];
  const entered: RequestContext[] = [];
  const first = definePlugin({
    name: 'first',
    create: () => ({
      admit: (context) => void entered.push(context),
      request: () => void seen.push('request'),
    }),
  });
  const gateway = await startTestGateway(t, {
    journal,
    providers: { up: { dialect: 'openai-chat', base_url: upstream.url } },
    plugins: [first, providerPlugin({ default: 'up' }), logger],
  });
  const ask = () =>
    send(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      body: { model: 'm', messages: [{ role: 'user', content: 'Hi' }] },
    });
  const asked = (count: number) =>
    eventually(() => Promise.resolve(journal.asked >= count ? true : undefined));
  return { upstream, journal, seen, entered, gateway, ask, asked };
}

describe('requests and a journal without room', () => {
  test('a request waits before anything is done for it, and goes on', async (t) => {
    const { upstream, journal, seen, ask, asked, gateway } = await start(t);
    const answer = ask();
    await asked(1);
    assert.deepEqual([seen, upstream.requests.length], [[], 0]);
    journal.makeRoom();
    const { status, text } = await answer;
    assert.equal(status, 200, text);
    await gateway.untilSettled();
    assert.equal(journal.rows<Partial<RequestRow>>('requests')[0]?.status, 200);
    assert.equal((await ask()).status, 200, 'and the next one at once');
  });

  test('one that is refused has cost nothing, and takes no room', async (t) => {
    const { upstream, journal, seen, ask, asked, gateway } = await start(t);
    const answer = ask();
    await asked(1);
    journal.giveUp();
    const { status, json } = await answer;
    assert.deepEqual([status, json().error.code], [503, 'journal_full']);
    const { outcome } = await gateway.untilSettled();
    assert.equal(outcome.error?.plugin, 'logger');
    assert.deepEqual([seen, upstream.requests.length, journal.lines.requests.length], [[], 0, 0]);
  });

  test('one that leaves while it waits is forgotten', async (t) => {
    const { upstream, journal, entered, asked, gateway } = await start(t);
    const leaving = new AbortController();
    const url = `${gateway.url}/v1/chat/completions`;
    const answer = fetch(url, { method: 'POST', body: '{"model":"m"}', signal: leaving.signal });
    await asked(1);
    leaving.abort();
    await assert.rejects(answer);
    await eventually(() => Promise.resolve(entered[0]?.aborted === true ? true : undefined));
    journal.makeRoom();
    const { outcome } = await gateway.untilSettled();
    assert.equal(outcome.kind, 'cancelled');
    assert.deepEqual([upstream.requests.length, gateway.held()], [0, 0]);
  });
});
