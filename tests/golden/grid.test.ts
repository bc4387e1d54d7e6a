// Every client's wire against every provider's wire, through a whole gateway. Two judges: the golden transcripts
// (`UPDATE_GOLDEN=1` writes them anew), and rules that are computed from the scenario alone.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseObject } from '../../adapters/dialects/json-reading.ts';
import { fakeWires, fixtureEvents, readFixture } from '../kit/fake-providers/fake-providers.ts';
import type { FakeWire } from '../kit/fake-providers/fake-wire.ts';
import type { Received } from '../kit/http-kit.ts';
import {
  askedModels,
  goldenClients,
  readRequest,
  startGridGateway,
  type GridGateway,
} from './grid-gateway.ts';
import type { WireClient, Heard } from '../../main/testing/heard.ts';
import { judgeAnswer, judgeFailure, judgeRequest } from './judge.ts';
import { Normaliser } from './normalise.ts';
import { scenarios, type ExpectedFailure, type Scenario } from './scenarios.ts';
import { framesOf } from '../../main/testing/heard.ts';
import { readTranscript, transcript, transcriptNames, writeTranscript } from './transcript.ts';

const isUpdate = process.env['UPDATE_GOLDEN'] === '1';

interface Call {
  readonly client: WireClient;
  readonly wire: FakeWire;
  readonly scenario: Scenario;
  readonly stream: boolean;
}

const calls: readonly Call[] = goldenClients.flatMap((client) =>
  fakeWires.flatMap((wire) =>
    scenarios
      .filter(({ without }) => without?.includes(wire.dialect) !== true)
      .flatMap((scenario) =>
        [false, true]
          .filter((stream) => scenario.only !== (stream ? 'whole' : 'streamed'))
          .map((stream) => ({ client, wire, scenario, stream })),
      ),
  ),
);

function pairOf({ client, wire }: Call): string {
  return `${client.name}--${wire.dialect}`;
}

function nameOf({ scenario, stream }: Call): string {
  return `${scenario.name}${stream ? '.stream' : ''}`;
}

for (const pair of new Set(calls.map(pairOf))) {
  test(pair, async (t) => {
    const gateway = await startGridGateway(t);
    for (const call of calls.filter((one) => pairOf(one) === pair)) {
      await t.test(nameOf(call), () => checkCall(call, gateway));
    }
  });
}

test('every transcript belongs to a scenario', async () => {
  const wanted = calls
    .filter(({ client, wire }) => client.dialect !== wire.dialect)
    .map((call) => `${pairOf(call)}/${nameOf(call)}`)
    .sort();
  assert.deepEqual(await transcriptNames(), wanted);
});

async function checkCall(call: Call, { providers, ask }: GridGateway): Promise<void> {
  const { client, wire, scenario, stream } = call;
  const model = askedModels[wire.dialect] as string;
  const request = await readRequest(client, scenario.request ?? scenario.name);
  const body = JSON.stringify(client.body(request, model, stream));
  const fixture = `grid-${scenario.answer ?? scenario.name}`;
  providers.play(scenario.fault === undefined ? { fixture } : { fixture, fault: scenario.fault });
  const received = await ask(client, wire, body, { stream });
  const [seen] = providers.seen;
  const fixtureText = await readFixture(wire, `${fixture}.${stream ? 'events' : 'json'}`);
  const isSame = client.dialect === wire.dialect;
  if (isSame) await judgeSame(call, seen?.bytes.toString(), body, received, fixture);
  else {
    const known = body + fixtureText;
    const text = transcript(seen, received, new Normaliser(known), !received.complete);
    const pair = pairOf(call);
    if (isUpdate) await writeTranscript(pair, nameOf(call), text);
    else
      assert.equal(text, await readTranscript(pair, nameOf(call)), 'UPDATE_GOLDEN=1 accepts the difference');
  }
  assert.ok(seen, `the provider got no request; the client got ${received.status} ${received.text}`);
  const dropped = received.headers['x-service-dropped']?.toString() ?? '';
  judgeRequest(scenario, wire, seen, { model, stream, dropped });
  const { expected } = scenario;
  if ('status' in expected) {
    if (isSame) return judgeSameFailure(client, scenario, received);
    judgeFailure(expected, received.status, heardOf(client, received));
    if (expected.status === 429) assert.equal(received.headers['retry-after'], '7');
    if (expected.inStream === undefined && scenario.fault?.kind === 'error') {
      assert.equal(parseObject(received.text)?.provider, `p-${wire.dialect}`);
    }
    return;
  }
  assert.equal(received.status, 200, received.text);
  assert.ok(received.complete);
  judgeAnswer(expected, client, wire, heardOf(client, received) as Heard);
}

/** The answer as the client understands it; of an error answer only what it says. */
function heardOf(client: WireClient, received: Received): Heard | string | undefined {
  if (received.headers['content-type']?.startsWith('text/event-stream') === true) {
    return client.hearStream(framesOf(received.body));
  }
  const answer = parseObject(received.text);
  if (answer === undefined) return undefined;
  return received.status === 200 ? client.hear(answer) : client.hearError(answer);
}

/** Nothing is changed where both sides speak the same wire. */
async function judgeSame(
  { wire, scenario, stream }: Call,
  seen: string | undefined,
  body: string,
  received: Received,
  fixture: string,
): Promise<void> {
  assert.equal(seen, body, 'the request was changed on its way');
  if (scenario.fault !== undefined) return;
  const sent = stream
    ? Buffer.concat([
        ...(await fixtureEvents(wire, fixture)).map((event) => wire.frame(event)),
        wire.ending ?? Buffer.alloc(0),
      ]).toString()
    : await readFixture(wire, `${fixture}.json`);
  assert.equal(received.text, sent, 'the answer was changed on its way');
}

/** A failure goes on as it came, too; but a torn stream must not look like a whole one. */
function judgeSameFailure(client: WireClient, { expected, fault }: Scenario, received: Received): void {
  const heard = heardOf(client, received);
  if (fault?.kind === 'error' || fault?.kind === 'error-event') {
    return judgeFailure(expected as ExpectedFailure, received.status, heard);
  }
  if (fault?.kind === 'html' || fault?.kind === 'empty') assert.equal(received.status, fault.status);
  if (typeof heard === 'object') assert.ok(!heard.ended, 'the stream says that it is whole');
  if (fault?.kind === 'cut') {
    const isTold = !received.complete || (heard as Heard).error !== undefined;
    assert.ok(isTold, 'nothing tells that the stream was torn');
  }
}
