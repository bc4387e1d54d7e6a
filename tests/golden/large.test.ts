// A request that is too large to be translated beside others is translated in a thread of its own: nobody may see it.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import fc from 'fast-check';
import { createLargeTranslation } from '../../adapters/dialects/large-translation.ts';
import type { JsonObject } from '../../adapters/dialects/json-reading.ts';
import { systemClock as clock } from '../../core/ports/clock.ts';
import type { LargeChat, LargeTranslation } from '../../core/ports/large-translation.ts';
import { fakeWires } from '../kit/fake-providers/fake-providers.ts';
import { objectsOf } from '../../adapters/dialects/json-reading.ts';
import type { FakeWire } from '../kit/fake-providers/fake-wire.ts';
import type { Received } from '../kit/http-kit.ts';
import {
  askedModels,
  goldenClients,
  readRequest,
  startGridGateway,
  type GridGateway,
} from './grid-gateway.ts';
import type { WireClient } from '../../main/testing/heard.ts';

/** Longer than what is translated beside others. */
const padding = 1_100_000;
const server = { max_body_bytes: 8_000_000 };
const requests = ['history', 'image', 'pdf', 'tool-results', 'parallel-tools', 'structured', 'reasoning'];

/** The same request with a long turn of the user before its others. */
function padded(client: WireClient, request: JsonObject, text: string): JsonObject {
  const long = text.repeat(Math.ceil(padding / Buffer.byteLength(text)));
  if (client.name === 'gemini') {
    const turn = { role: 'user', parts: [{ text: long }] };
    return { ...request, contents: [turn, ...objectsOf(request.contents)] };
  }
  const member = client.name === 'responses' ? 'input' : 'messages';
  const said = request[member];
  const turns = typeof said === 'string' ? [{ role: 'user', content: said }] : objectsOf(said);
  const begin = turns[0]?.role === 'system' ? 1 : 0;
  return { ...request, [member]: turns.toSpliced(begin, 0, { role: 'user', content: long }) };
}

/** The thread, which counts what it was given. */
function counted(t: TestContext): LargeTranslation & { readonly chats: LargeChat[] } {
  const thread = createLargeTranslation({ clock });
  t.after(() => thread.close());
  const chats: LargeChat[] = [];
  const encode = (chat: LargeChat): ReturnType<LargeTranslation['encode']> => {
    chats.push(chat);
    return thread.encode(chat);
  };
  return { chats, encode, close: () => thread.close() };
}

/** What a client and its provider get, without ids and times that the gateway makes. */
function told({ providers }: GridGateway, { status, text, headers }: Received): unknown {
  const plain = text
    .replace(/[a-z_-]+[0-9a-f]{24}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<id>')
    .replace(/"(created|created_at|completed_at)":\d+/g, '"time":0');
  const [seen] = providers.seen;
  return {
    status,
    plain,
    dropped: headers['x-service-dropped'],
    asked: seen?.url,
    type: seen?.headers['content-type'],
    bytes: seen?.bytes.toString('utf8'),
  };
}

function pairOf(caller: string, dialect: string): { readonly client: WireClient; readonly wire: FakeWire } {
  const client = goldenClients.find(({ name }) => name === caller);
  const wire = fakeWires.find((one) => one.dialect === dialect);
  assert.ok(client !== undefined && wire !== undefined);
  return { client, wire };
}

/** Where two answers part; undefined when they do not. Whole ones would fill the screen. */
function difference(one: unknown, other: unknown): string | undefined {
  const [here, there] = [JSON.stringify(one), JSON.stringify(other)];
  if (here === there) return undefined;
  let at = 0;
  while (here[at] === there[at]) at += 1;
  return `${here.slice(Math.max(0, at - 60), at + 80)} | ${there.slice(Math.max(0, at - 60), at + 80)}`;
}

test('a large request and its answer are the same whether a thread translates it or not', async (t) => {
  const largeTranslation = counted(t);
  const gateways = [
    await startGridGateway(t, { server }),
    await startGridGateway(t, { server, largeTranslation }),
  ];
  const drawn = fc.record({
    client: fc.constantFrom(...goldenClients.map(({ name }) => name)),
    wire: fc.constantFrom(...fakeWires.map(({ dialect }) => dialect)),
    name: fc.constantFrom(...requests),
    stream: fc.boolean(),
    text: fc.constantFrom('plain ', 'Ünïcode 日本語 ', '"quoted"\n\t\\', '12345678901234567890 '),
  });
  let translated = 0;
  await fc.assert(
    fc.asyncProperty(drawn, async ({ name, stream, text, ...pair }) => {
      const { client, wire } = pairOf(pair.client, pair.wire);
      if (client.dialect === wire.dialect) return;
      translated += 1;
      const request = padded(client, await readRequest(client, name), text);
      const body = JSON.stringify(client.body(request, askedModels[wire.dialect] as string, stream));
      const [here, there] = await Promise.all(
        gateways.map(async (gateway) => {
          gateway.providers.play({ fixture: 'grid-text' });
          return told(gateway, await gateway.ask(client, wire, body, { stream }));
        }),
      );
      assert.equal(difference(here, there), undefined, `${client.name} to ${wire.dialect}, ${name}, ${text}`);
    }),
    { numRuns: 20 },
  );
  assert.ok(translated > 8);
  assert.equal(largeTranslation.chats.length, translated);
});

test('what no wire can say is refused with the same words', async (t) => {
  const largeTranslation = counted(t);
  const gateways = [
    await startGridGateway(t, { server }),
    await startGridGateway(t, { server, largeTranslation }),
  ];
  const messages = [{ role: 'user', content: 'x'.repeat(padding) }, { role: 'nobody' }];
  const { client, wire } = pairOf('messages', 'cohere-v2');
  const [here, there] = await Promise.all(
    gateways.map((gateway) =>
      gateway.ask(client, wire, JSON.stringify({ model: 'm', max_tokens: 9, messages }), { stream: false }),
    ),
  );
  assert.equal(here?.status, 400, here?.text);
  assert.equal(there?.status, 400);
  assert.equal(there.text.replace(/"request_id".*/, ''), here.text.replace(/"request_id".*/, ''));
  assert.equal(largeTranslation.chats.length, 1);
});

test('without a thread the request is translated all the same', async (t) => {
  const largeTranslation = {
    encode: () => Promise.reject(new Error('no thread')),
    close: async () => undefined,
  };
  const gateway = await startGridGateway(t, { server, largeTranslation });
  const { client, wire } = pairOf('chat', 'cohere-v2');
  const request = padded(client, await readRequest(client, 'history'), 'plain ');
  const body = JSON.stringify(client.body(request, 'command-a-reasoning-08-2025', false));
  assert.equal((await gateway.ask(client, wire, body, { stream: false })).status, 200);
});
