import assert from 'node:assert/strict';
import type { FakeWire, SeenRequest } from '../kit/fake-providers/fake-wire.ts';
import type { WireClient, Heard } from '../../main/testing/heard.ts';
import type { Expected, ExpectedFailure, Scenario } from './scenarios.ts';

/** Wires that tell how many tokens were thought; the others count them in the completion without a detail. */
const countsThoughts = new Set(['openai-chat', 'openai-responses', 'google-gemini']);
/** Wires on both sides that have a place for the proof of a thinking block. */
const signingProviders = new Set(['openai-responses', 'anthropic-messages', 'bedrock-converse']);
const signingClients = new Set(['responses', 'messages', 'gemini']);

/** The provider got a request that it would take, with everything in it that the client said. */
export function judgeRequest(
  scenario: Scenario,
  wire: FakeWire,
  seen: SeenRequest,
  asked: { readonly model: string; readonly stream: boolean; readonly dropped: string },
): void {
  assert.deepEqual(wire.asked(seen), { model: asked.model, stream: asked.stream });
  assert.deepEqual(wire.violations(seen), [], `${wire.dialect} would refuse the request`);
  const said = textsOf(seen.body).join('\n');
  for (const { marker, dropped } of scenario.sent) {
    if (said.includes(marker)) continue;
    assert.ok(
      dropped?.test(asked.dropped),
      `the provider never got ${JSON.stringify(marker.slice(0, 60))}; x-service-dropped: "${asked.dropped}"`,
    );
  }
}

/** Every name and text of a JSON value. */
export function textsOf(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value];
  if (Array.isArray(value)) return value.flatMap(textsOf);
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, one]) => [name, ...textsOf(one)]);
}

/** The client understands what the provider said. */
export function judgeAnswer(expected: Expected, client: WireClient, wire: FakeWire, heard: Heard): void {
  assert.deepEqual(heard.problems, [], 'the answer breaks the rules of its wire');
  assert.equal(heard.error, undefined);
  assert.ok(heard.ended, 'the answer does not say that it is whole');
  const refused = expected.refusal !== undefined;
  // What Cohere says beside its calls is its plan, which is thinking.
  const plans =
    wire.dialect === 'cohere-v2' && expected.calls !== undefined && expected.reasoning === undefined;
  const text = refused && heard.refusal === '' ? expected.refusal : (expected.text ?? '');
  assert.equal(heard.text, plans ? '' : text);

  if (refused && heard.refusal !== '') assert.equal(heard.refusal, expected.refusal);
  assert.equal(heard.reasoning, plans ? text : (expected.reasoning ?? ''));
  if (
    expected.signature !== undefined &&
    signingProviders.has(wire.dialect) &&
    signingClients.has(client.name)
  ) {
    assert.ok(
      heard.signatures.some((one) => one.endsWith(expected.signature as string)),
      `no signature of the thinking: ${JSON.stringify(heard.signatures)}`,
    );
  }
  judgeCalls(expected, client, heard);
  if (expected.source !== undefined) {
    assert.ok(heard.sources.includes(expected.source), 'the source is not cited');
    const marks = heard.cited.length > 0;
    if (marks)
      assert.ok(heard.cited.includes(expected.cited ?? ''), `it marks ${JSON.stringify(heard.cited)}`);
  }
  if (!refused) assert.equal(heard.finish, client.finishWords[expected.finish]);
  judgeUsage(expected, client, wire, heard);
}

function judgeCalls(expected: Expected, client: WireClient, heard: Heard): void {
  const calls = expected.calls ?? [];
  assert.deepEqual(
    heard.calls.map(({ name, arguments: text }) => ({ name, arguments: parsed(text) })),
    calls.map(({ name, arguments: text }) => ({ name, arguments: parsed(text) })),
  );
  if (client.name === 'gemini') return;
  const ids = new Set(heard.calls.map(({ id }) => id));
  assert.ok(!ids.has('') && ids.size === calls.length, `ids of calls: ${[...ids].join()}`);
}

function judgeUsage({ usage }: Expected, client: WireClient, wire: FakeWire, heard: Heard): void {
  const told = countsThoughts.has(wire.dialect) ? usage.reasoning : 0;
  const reasoning = client.name === 'messages' ? undefined : told;
  assert.deepEqual(heard.usage, { ...usage, reasoning });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return assert.fail(`arguments that are no JSON: ${text}`);
  }
}

/** The client learns of a failure in its own wire, and never of an orderly end. */
export function judgeFailure(
  expected: ExpectedFailure,
  status: number,
  heard: Heard | string | undefined,
): void {
  assert.equal(status, expected.status);
  if (expected.inStream === undefined) {
    assert.equal(typeof heard, 'string', 'the error has not the shape of the client’s wire');
    assert.match(heard as string, expected.message);
    return;
  }
  const stream = heard as Heard;
  assert.match(stream.error ?? '', expected.message);
  assert.ok(!stream.ended, 'the stream says that it is whole');
}
