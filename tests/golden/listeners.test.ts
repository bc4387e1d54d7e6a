// The judges judged: what the fake providers answer is what the listening clients understand, and a breach of a wire's
// rules is noticed.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, it } from 'node:test';
import type { JsonObject } from '../../adapters/dialects/json-reading.ts';
import { fakeWires, fixtureEvents, startFakeProviders } from '../kit/fake-providers/fake-providers.ts';
import type { SeenRequest } from '../kit/fake-providers/fake-wire.ts';
import { send } from '../kit/http-kit.ts';
import { chatClient } from '../../main/testing/clients/chat.ts';
import { geminiClient } from '../../main/testing/clients/gemini.ts';
import { messagesClient } from '../../main/testing/clients/messages.ts';
import { responsesClient } from '../../main/testing/clients/responses.ts';
import type { WireClient } from '../../main/testing/heard.ts';
import { judgeAnswer } from './judge.ts';
import { scenarios } from './scenarios.ts';
import { framesOf } from '../../main/testing/heard.ts';

const clients: readonly WireClient[] = [chatClient, responsesClient, messagesClient, geminiClient];
const credentials = {
  authorization: 'Bearer sk',
  'x-api-key': 'sk',
  'x-goog-api-key': 'sk',
  'anthropic-version': '2023-06-01',
};

function wireOf(client: WireClient) {
  const wire = fakeWires.find(({ dialect }) => dialect === client.dialect);
  assert.ok(wire);
  return wire;
}

function addressOf(client: WireClient, stream: boolean): string {
  const path = client.path('m', stream);
  if (client.name === 'gemini') return path;
  return client.name === 'messages' ? `/anthropic${path}` : `/openai${path}`;
}

describe('a client and a provider of the same wire', () => {
  for (const client of clients) {
    it(`${client.name}: every request is taken and every answer understood`, async (t) => {
      const providers = await startFakeProviders(t);
      const wire = wireOf(client);
      for (const scenario of scenarios) {
        const { expected } = scenario;
        if ('status' in expected || scenario.without?.includes(client.dialect) === true) continue;
        for (const stream of [false, true]) {
          providers.play({ fixture: `grid-${scenario.name}` });
          const file = new URL(`./requests/${client.name}/${scenario.name}.json`, import.meta.url);
          const request = JSON.parse(await readFile(file, 'utf8')) as JsonObject;
          const body = client.body(request, 'm', stream);
          // Members of the gateway's own, which it takes from this wire's clients.
          for (const message of (body.messages ?? []) as JsonObject[]) delete message.content_blocks;
          const received = await send(providers.url, {
            method: 'POST',
            path: addressOf(client, stream),
            body,
            headers: { 'content-type': 'application/json', ...credentials },
          });
          assert.equal(received.status, 200, received.text);
          assert.deepEqual(wire.violations(providers.seen[0] as SeenRequest), [], scenario.name);
          const heard = stream
            ? client.hearStream(framesOf(received.body))
            : client.hear(received.json() as JsonObject);
          judgeAnswer(expected, client, wire, heard);
        }
      }
    });

    it(`${client.name}: a stream without one of its events is noticed`, async () => {
      const wire = wireOf(client);
      const events = await fixtureEvents(wire, 'grid-parallel-tools');
      const { expected } = scenarios.find(({ name }) => name === 'parallel-tools') ?? assert.fail();
      assert.ok(!('status' in expected));
      for (const missing of events.keys()) {
        const event = events[missing] as JsonObject;
        // The only ones that say nothing of the answer.
        if (['ping', 'response.in_progress'].includes(String(event.type))) continue;
        if (JSON.stringify(event).includes('"partial_json":""')) continue;
        if (client.name === 'chat' && missing === 0) continue;
        const bytes = Buffer.concat(events.filter((_, at) => at !== missing).map((one) => wire.frame(one)));
        assert.throws(
          () => {
            const done = client.name === 'chat' ? [{ event: '', data: '[DONE]' }] : [];
            judgeAnswer(expected, client, wire, client.hearStream([...framesOf(bytes), ...done]));
          },
          assert.AssertionError,
          `nobody misses ${JSON.stringify(event)}`,
        );
      }
    });
  }
});
