import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { createCredentialFactory } from '../../../adapters/credentials/index.ts';
import { createGuardedFetch } from '../../../adapters/guarded-fetch/guarded-fetch.ts';
import type { AnyCheck, JsonValue } from '../../../core/pipeline/plugin.ts';
import { systemClock } from '../../../core/ports/clock.ts';
import { startUpstream } from '../../../tests/kit/http-kit.ts';
import { testScope } from '../../../tests/kit/plugin-kit.ts';
import { faults, judge, subject } from '../checks/subject.test-support.ts';
import { serviceChecks, services } from './index.ts';
import { judged, neverShown, type StandIn } from './stand-in.test-support.ts';
import { standIns } from './stand-ins.test-support.ts';

/** The answer; undefined for none, ever. */
type Answer = JsonValue | undefined;

/** A stand-in that answers alike every time, and the check that asks it. */
async function asked(t: TestContext, check: AnyCheck, standIn: StandIn, answer: Answer) {
  const upstream = await startUpstream(t, (_, response) => {
    if (answer === undefined) return;
    const { status = 200, text = JSON.stringify(answer) } = (
      typeof answer === 'object' && answer !== null && 'status' in answer && 'text' in answer ? answer : {}
    ) as { status?: number; text?: string };
    response.writeHead(status, { 'content-type': 'application/json' }).end(text);
  });
  const { scope } = testScope();
  const { log } = scope;
  const own = {
    ...scope,
    guardedFetch: createGuardedFetch({ log, clock: systemClock, trustedHosts: [upstream.host] }),
    credentials: createCredentialFactory({
      clock: systemClock,
      transport: { send: () => assert.fail('nobody is asked for a token'), close: () => Promise.resolve() },
      environment: {},
    }),
  };
  const [phase = 'input'] = check.phases;
  const of = subject({
    phase,
    text: judged,
    metadata: { _user: 'ann' },
    ...(phase === 'output' && {
      request: {
        text: 'What is your mail?',
        texts: [{ role: 'user', type: 'text', text: 'What is your mail?', path: ['messages', 0], choice: 0 }],
      },
    }),
    json: { model: 'gpt-4o', messages: [{ role: 'user', content: judged }] },
  });
  const parameters = {
    ...standIn.parameters,
    ...(standIn.credentials !== undefined && { credentials: standIn.credentials }),
    baseURL: upstream.url,
    timeout: answer === undefined ? 30 : 5000,
  };
  const run = (more: object = {}) => judge(check, { ...parameters, ...more }, of, own);
  return { run, of, requests: upstream.requests };
}

test('every row has a stand-in, and no stand-in is left', () => {
  assert.deepEqual(Object.keys(standIns).sort(), services.map(({ id }) => id).sort());
});

for (const check of serviceChecks) {
  const standIn = standIns[check.id];
  if (standIn === undefined) continue;

  describe(check.id, () => {
    test('passes what the service passes, and asks it as it documents', async (t) => {
      const { run, requests } = await asked(t, check, standIn, standIn.passes);
      const { verdict, data } = await run();
      assert.equal(verdict, 'passed');
      assert.ok(!JSON.stringify(data).includes(neverShown));
      const [request, ...others] = requests;
      assert.deepEqual([request?.method, request?.url, others.length], ['POST', standIn.path, 0]);
      const [name, value] = standIn.header ?? [];
      if (name !== undefined && value !== undefined) {
        const sent = String(request?.headers[name]);
        if (typeof value === 'string') assert.equal(sent, value);
        else assert.match(sent, value);
      }
      const body = JSON.parse(request?.body.toString() ?? '') as Record<string, unknown>;
      for (const [member, expected] of Object.entries(standIn.body))
        assert.deepEqual(body[member], expected, member);
    });

    if (standIn.fails !== undefined)
      test('fails what the service finds, and tells what it is', async (t) => {
        const { run, of } = await asked(t, check, standIn, standIn.fails);
        const { verdict, data } = await run();
        assert.equal(verdict, 'failed');
        const { findings = [], service } = data as { findings?: string[]; service?: string };
        assert.equal(service, check.id.split('.')[0]);
        for (const finding of standIn.findings) assert.ok(findings.includes(finding), findings.join());
        assert.ok(!JSON.stringify(data).includes('ann@example.com'));
        assert.deepEqual(
          of.texts.map(({ text }) => text),
          [judged],
        );
      });

    for (const [name, answer] of [
      ['an error', { status: 500, text: JSON.stringify(standIn.passes) }],
      ['what is no JSON', { status: 200, text: '<html>' }],
      ['JSON that says nothing of it', standIn.vague],
      ['a list', [] as JsonValue],
      ['null', null],
      ['nothing in time', undefined],
    ] as const)
      test(`${name}: it could not judge`, async (t) => {
        const { run } = await asked(t, check, standIn, answer);
        await assert.rejects(run(), (error: Error) => {
          assert.ok(!error.message.includes(neverShown), error.message);
          return true;
        });
      });

    if (standIn.replaced !== undefined)
      test('puts what the service has in the place of what it found', async (t) => {
        const { answer = standIn.fails, parameters } = standIn.replacing ?? {};
        const { run, of } = await asked(t, check, standIn, answer);
        const isRedacting = 'redact' in (check.schema as unknown as { properties: object }).properties;
        const { verdict } = await run(parameters ?? (isRedacting ? { redact: true } : {}));
        assert.equal(verdict, 'passed');
        assert.deepEqual(
          of.texts.map(({ text }) => text),
          [standIn.replaced],
        );
        assert.ok(standIn.replaced !== judged || of.values.length > 0);
      });

    test('refuses parameters that it does not know', () => {
      assert.match(faults(check, { ...standIn.parameters, unheard: 1 }), /unheard/);
      assert.match(faults(check, { ...standIn.parameters, baseURL: 'ftp://x' }), /baseURL/);
      assert.match(faults(check, { ...standIn.parameters, timeout: 60_001 }), /timeout/);
      if (standIn.credentials !== undefined)
        assert.match(faults(check, { ...standIn.parameters, credentials: { unheard: '1' } }), /unheard/);
    });
  });
}
