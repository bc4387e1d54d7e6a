// Usage alerts as people and systems get them: by a real mail server and a webhook, from gateways as processes.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { startFleet } from '../kit/gateway-fleet.ts';
import { mailHeader, type MailServer, startMailServer, type TakenMail } from '../kit/mail-server.ts';
import { chat, makePremises, operate, type Premises } from '../kit/operator.ts';
import { postgresMissing, type PostgresServer } from '../kit/postgres-server.ts';
import {
  eventually,
  startWeir,
  stopEverything,
  temporaryFolder,
  type WeirProcess,
} from '../kit/process-kit.ts';
import { redisMissing, startRedis, type RedisServer } from '../kit/redis-server.ts';

const signingKey = Buffer.from('0123456789abcdef0123456789abcdef');
const secret = `whsec_${signingKey.toString('base64')}`;
const password = 's3cret-of-the-mail-server';
const env = { WEIR_OWNER_EMAIL: 'owner@example.com', HOOK_SECRET: secret, SMTP_PASSWORD: password };
/** What one answer of the mock takes. */
const tokensOfAnswer = 32;

/** An event as a webhook got it. */
interface Posted {
  readonly id: string;
  readonly event: any;
}

let smtp: MailServer;
let hook: http.Server;
const posted: Posted[] = [];
/** Ids of before a kill, which may come between a delivery and its record: a receiver knows such an event by its id. */
let knownBefore: ReadonlySet<string> = new Set();

before(async () => {
  smtp = await startMailServer({ users: { weir: password } });
  hook = http.createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString();
      const [id, time, signature] = ['id', 'timestamp', 'signature'].map((name) =>
        String(request.headers[`webhook-${name}`]),
      );
      const signed = createHmac('sha256', signingKey).update(`${id}.${time}.${body}`).digest('base64');
      assert.equal(signature, `v1,${signed}`);
      if (!knownBefore.has(id ?? '')) posted.push({ id: id ?? '', event: JSON.parse(body) });
      response.end();
    });
  });
  await new Promise<void>((resolve) => hook.listen(0, '127.0.0.1', resolve));
});
after(async () => {
  await stopEverything();
  await smtp.stop();
  hook.close();
});

/** What every gateway here is told of alerts. */
function alerting() {
  const host = `127.0.0.1:${(hook.address() as AddressInfo).port}`;
  return {
    security: { trusted_hosts: [host] },
    alerts: {
      smtp: {
        url: `smtp://weir:\${SMTP_PASSWORD}@127.0.0.1:${smtp.port}`,
        require_tls: false,
        from: 'Weir <weir@example.com>',
      },
      webhooks: [{ url: `http://${host}/usage`, secret: '${HOOK_SECRET}' }],
    },
    pipelines: [
      { name: 'admin', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
      { name: 'gateway', match: { path: '/**' }, plugins: ['auth', 'policies', 'provider'] },
    ],
  };
}

/** Makes a key that alerts `ops@NAME.example.com`, in a workspace that `lead@NAME.example.com` manages. */
async function makePlace(url: string, name: string) {
  const premises = await makePremises(url, name);
  const invite = await operate(url, {
    path: '/admin/users/invites',
    body: {
      email: `lead@${name}.example.com`,
      role: 'member',
      workspaces: [{ id: premises.workspace, role: 'manager' }],
    },
  });
  const token = new URL(invite.invite_link).hash.slice(1);
  await operate(url, { path: '/invites/accept', body: { token, first_name: 'Lea', last_name: 'D' } });
  await limit(url, premises, { credit_limit: 3 * tokensOfAnswer, alert_threshold: tokensOfAnswer });
  const body = { alert_emails: [`ops@${name}.example.com`] };
  await operate(url, { method: 'PUT', path: `/api-keys/${premises.keyId}`, body });
  return premises;
}

function limit(url: string, { keyId }: Premises, usage_limits: object): Promise<unknown> {
  const body = { usage_limits: { type: 'tokens', ...usage_limits } };
  return operate(url, { method: 'PUT', path: `/api-keys/${keyId}`, body });
}

async function ask(url: string, { key }: Premises): Promise<number> {
  return (await chat(url, { key, model: 'mock-gpt', headers: { 'x-service-provider': 'mock' } })).status;
}

/** Mails and events about a key, in words, sorted; those that came since it was asked last. */
function news({ keyId }: Premises): string[] {
  const mails = smtp.mails.filter(({ raw }) => raw.includes(keyId) && !seen.has(raw));
  const events = posted.filter((one) => one.event.data.subject.id === keyId && !seen.has(one));
  for (const one of [...mails.map(({ raw }) => raw), ...events]) seen.add(one);
  const told = (mail: TakenMail): string =>
    `${mail.to.join()} ${mailHeader(mail, 'subject').includes('exhausted') ? 'exhausted' : 'threshold'}`;
  return [...mails.map(told), ...events.map(({ event }) => String(event.type))].sort();
}
const seen = new Set<unknown>();

/** Waits for so many, and a moment longer for one too many. */
async function newsOf(premises: Premises, count: number): Promise<string[]> {
  const found: string[] = [];
  await eventually(
    () => {
      found.push(...news(premises));
      return found.length >= count || undefined;
    },
    () => `${count} alerts; there are: ${found.join(', ')}`,
  );
  await new Promise((resolve) => setTimeout(resolve, 300));
  return [...found, ...news(premises)].sort();
}

const everybody = (name: string, kind: 'threshold' | 'exhausted'): string[] => [
  ...[`lead@${name}.example.com`, `ops@${name}.example.com`, 'owner@example.com'].map(
    (to) => `${to} ${kind}`,
  ),
  kind === 'threshold' ? 'usage.threshold_reached' : 'usage.limit_exhausted',
];

describe('usage that reaches a threshold or a limit', () => {
  let data: string;
  let weir: WeirProcess;
  let premises: Premises;
  const start = async (): Promise<void> => {
    const storage = { resources: { url: 'pglite:' }, analytics: { url: 'none:' } };
    weir = await startWeir({ yaml: { version: 1, storage, ...alerting() }, data, env });
  };

  before(async () => {
    data = path.join(await temporaryFolder(), 'data');
    await start();
    premises = await makePlace(weir.url, 'one');
  });

  test('is told to each person and each system once', async () => {
    assert.equal(await ask(weir.url, premises), 200);
    assert.deepEqual(await newsOf(premises, 4), everybody('one', 'threshold'));
    assert.deepEqual(
      [await ask(weir.url, premises), await ask(weir.url, premises), await ask(weir.url, premises)],
      [200, 200, 412],
    );
    assert.deepEqual(await newsOf(premises, 4), everybody('one', 'exhausted'));
    const [first, second] = posted.filter(({ event }) => event.data.subject.id === premises.keyId);
    assert.notEqual(first?.id, second?.id);
    const { timestamp, data: told } = second?.event ?? {};
    assert.ok(Math.abs(Date.parse(timestamp) - Date.now()) < 60_000);
    assert.deepEqual(told, {
      organisation_id: told.organisation_id,
      workspace_id: premises.workspace,
      subject: { type: 'api_key', id: premises.keyId, name: 'one key', value_key: null },
      unit: 'tokens',
      credit_limit: 96,
      alert_threshold: 32,
      current_usage: 96,
      next_usage_reset_at: null,
    });
  });

  test('is told again after a higher limit', async () => {
    await limit(weir.url, premises, { credit_limit: 10_000, alert_threshold: 4 * tokensOfAnswer });
    await eventually(async () => ((await ask(weir.url, premises)) === 200 ? true : undefined));
    assert.deepEqual(await newsOf(premises, 4), everybody('one', 'threshold'));
  });

  test('is told after the mail server has come back and the gateway was killed, once', async () => {
    const { port } = smtp;
    await smtp.stop();
    await limit(weir.url, premises, { credit_limit: 5 * tokensOfAnswer });
    await eventually(async () => ((await ask(weir.url, premises)) === 412 ? true : undefined));
    await weir.untilStderr('"alerts.mail" failed and is tried again');
    await weir.stop('SIGKILL');
    knownBefore = new Set(posted.map(({ id }) => id));
    smtp = await startMailServer({ port, users: { weir: password } });
    await start();
    assert.equal(await ask(weir.url, premises), 412);
    assert.deepEqual(await newsOf(premises, 4), everybody('one', 'exhausted'));
  });

  test('rate limits of policies are told once a day, those of keys to nobody', async () => {
    const premises = await makePlace(weir.url, 'rates');
    const { id } = await operate(weir.url, {
      path: '/policies/rate-limits',
      body: {
        name: 'One a day',
        workspace_id: premises.workspace,
        conditions: [{ key: 'workspace_id', value: premises.workspace }],
        group_by: [{ key: 'api_key' }],
        ...{ type: 'requests', unit: 'rpd', value: 1 },
      },
    });
    const answers: number[] = [];
    for (let count = 0; count < 4; count += 1) answers.push(await ask(weir.url, premises));
    assert.deepEqual(answers, [200, 429, 429, 429]);
    const mailsOf = () => smtp.mails.filter(({ raw }) => raw.includes(id));
    await eventually(
      () => (mailsOf().length >= 2 && posted.some(({ event }) => event.data.subject.id === id)) || undefined,
    );
    await new Promise((resolve) => setTimeout(resolve, 300));
    assert.deepEqual(
      mailsOf()
        .flatMap(({ to }) => to)
        .sort(),
      ['lead@rates.example.com', 'owner@example.com'],
    );
    for (const mail of mailsOf()) assert.match(mailHeader(mail, 'subject'), /Rate_limit_reached/);
    const [event, ...more] = posted.filter(({ event }) => event.data.subject.id === id);
    assert.deepEqual([event?.event.type, more.length], ['rate_limit.reached', 0]);
    const { value, per, unit, subject } = event?.event.data ?? {};
    assert.deepEqual([value, per, unit], [1, 'rpd', 'requests']);
    assert.equal(subject.value_key, `api_key:${premises.keyId}`);
  });

  test('is told as the configuration says that serves now, and nothing tells a secret', async () => {
    const output = weir.stdout() + weir.stderr();
    assert.ok(!output.includes(password) && !output.includes(secret));
    const { text } = await fetch(`${weir.url}/status`).then(async (answer) => ({
      text: await answer.text(),
    }));
    assert.ok(!text.includes(password) && !text.includes(secret));
  });
});

describe('two gateways that share a store and jobs', { skip: postgresMissing || redisMissing }, () => {
  let redis: RedisServer;
  let server: PostgresServer;
  let gateways: readonly WeirProcess[];
  let premises: Premises;
  const askUntil = async (status: number): Promise<void> => {
    for (const { url } of gateways)
      await eventually(async () => ((await ask(url, premises)) === status ? true : undefined));
  };

  before(async () => {
    redis = await startRedis();
    const storage = { analytics: { url: 'none:' }, jobs: { url: redis.url } };
    ({ server, gateways } = await startFleet({ size: 2, configuration: { storage, ...alerting() }, env }));
    premises = await makePlace(gateways[0]?.url ?? '', 'two');
  });
  after(async () => {
    await stopEverything();
    await server.stop();
    await redis.stop();
  });

  test('tell once', async () => {
    await askUntil(412);
    const expected = [...everybody('two', 'threshold'), ...everybody('two', 'exhausted')].sort();
    assert.deepEqual(await newsOf(premises, 8), expected);
  });

  test('tell once what was crossed while the store of jobs was away', async () => {
    await redis.kill();
    await limit(gateways[0]?.url ?? '', premises, { credit_limit: 10 * tokensOfAnswer });
    await askUntil(200);
    await askUntil(412);
    for (const gateway of gateways) await gateway.untilStderr('Usage alerts cannot be stored now');
    assert.deepEqual(news(premises), []);
    await redis.start();
    assert.deepEqual(await newsOf(premises, 4), everybody('two', 'exhausted'));
  });
});
