// A client sends back what it got: thoughts and their proof must reach the provider that had them, or it refuses the
// next turn.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asObject, type JsonObject, objectsOf } from '../../adapters/dialects/json-reading.ts';
import { fakeWires } from '../kit/fake-providers/fake-providers.ts';
import { askedModels, goldenClients, readRequest, startGridGateway } from './grid-gateway.ts';
import { textsOf } from './judge.ts';
import { signature } from './scenarios.ts';

const thought = 'Kiel is a city; I need its weather.';

/** Where each provider wants its own thoughts. Chat completions of OpenAI take none; Cohere signs none. */
const wants: Readonly<Record<string, (body: JsonObject) => void>> = {
  'openai-responses': ({ input }) => {
    const items = objectsOf(input);
    const at = items.findIndex(({ type }) => type === 'reasoning');
    assert.equal(items[at]?.encrypted_content, signature);
    assert.ok(at < items.findIndex(({ type }) => type === 'function_call'));
  },
  'anthropic-messages': ({ messages }) => {
    const block = objectsOf(objectsOf(messages)[1]?.content)[0];
    assert.deepEqual(block, { type: 'thinking', thinking: thought, signature });
  },
  'bedrock-converse': ({ messages }) => {
    const block = objectsOf(objectsOf(messages)[1]?.content)[0];
    assert.deepEqual(block, { reasoningContent: { reasoningText: { text: thought, signature } } });
  },
  'google-gemini': ({ contents }) => {
    const call = objectsOf(objectsOf(contents)[1]?.parts).find((part) => asObject(part.functionCall));
    assert.equal(call?.thoughtSignature, signature);
  },
  'cohere-v2': ({ messages }) => {
    assert.deepEqual(objectsOf(objectsOf(messages)[1]?.content)[0], { type: 'thinking', thinking: thought });
  },
};

for (const client of goldenClients) {
  for (const wire of fakeWires) {
    if (client.dialect === wire.dialect) continue;
    test(`${client.name} gives ${wire.dialect} its thoughts back`, async (t) => {
      const { providers, ask } = await startGridGateway(t);
      const model = askedModels[wire.dialect] as string;
      const turn = { stream: false, headers: { 'x-service-strict-openai-compliance': 'false' } };
      const request = await readRequest(client, 'reasoning-tools');
      providers.play({ fixture: 'grid-reasoning-tools' });
      const first = await ask(client, wire, JSON.stringify(client.body(request, model, false)), turn);
      assert.equal(first.status, 200, first.text);
      const next = client.next(request, first.json() as JsonObject, '42 knots');
      providers.play({ fixture: 'grid-reasoning-history' });
      const second = await ask(client, wire, JSON.stringify(client.body(next, model, false)), turn);
      assert.equal(second.status, 200, second.text);
      const [seen] = providers.seen;
      assert.ok(seen);
      assert.deepEqual(wire.violations(seen), []);
      assert.ok(textsOf(seen.body).join('\n').includes('42 knots'));
      wants[wire.dialect]?.(seen.body);
    });
  }
}
