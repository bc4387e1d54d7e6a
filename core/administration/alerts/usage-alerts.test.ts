import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { testFetch } from '../../../adapters/guarded-fetch/guarded-fetch.test-support.ts';
import { temporaryFolder } from '../../../storage/embedded/chdb-fixture.ts';
import { openLocalJobs } from '../../../storage/jobs/local-jobs.ts';
import { ManualClock, settle } from '../../../tests/conformance/manual-clock.ts';
import { startUpstream } from '../../../tests/kit/http-kit.ts';
import { eventually } from '../../../tests/kit/process-kit.ts';
import type { AlertSettings } from '../../config/alerts-schema.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import {
  type Line,
  realClock,
  recordingLog,
  RecordingMetrics,
} from '../../lifecycle/recording-services.test-support.ts';
import type { AlertClaim, UsageCrossing } from '../../ports/budgets.ts';
import type { Jobs } from '../../ports/jobs.ts';
import type { ResourcesReader } from '../../ports/resources.ts';
import { AlertChannels } from './alert-channels.ts';
import { type Mail, MailFailure } from './mail.ts';
import { createUsageAlerts } from './usage-alerts.ts';

const smtp = { url: 'smtp://weir:s3cret@mail', from: 'weir@example.com' };
const secret = `whsec_${'s3cret++'.repeat(4)}`;

function crossing(number: number, more: Partial<UsageCrossing> = {}): UsageCrossing {
  return {
    id: `key:o:k${number}:exhausted:0:20`,
    kind: 'exhausted',
    key: `key:o:k${number}`,
    mark: '0:20',
    organisationId: 'o',
    workspaceId: 'w',
    subject: { type: 'api_key', id: `k${number}`, name: 'ours' },
    unit: 'requests',
    limit: 20,
    threshold: undefined,
    used: 20,
    resetsAt: undefined,
    at: 0,
    emails: ['ops@example.com'],
    ...more,
  };
}

/** What several gateways share, and the people of their organisation. */
class Place {
  readonly taken: Mail[] = [];
  readonly stored: { readonly name: string; readonly id: string; readonly data: unknown }[] = [];
  readonly lines: Line[] = [];
  readonly metrics = new RecordingMetrics();
  readonly clock = new ManualClock();
  settings: AlertSettings = { smtp, webhooks: [] };
  managers: readonly string[] = [];
  admins: readonly string[] = ['admin@example.com', 'OPS@example.com', 'owner@localhost'];
  keyType = 'workspace-service';
  trustedHosts: readonly string[] = [];
  /** Called before each mail is taken, and before each job is stored. */
  beforeMail: (mail: Mail) => void | Promise<void> = () => undefined;
  beforeStoring: (name: string, id: string) => void | Promise<void> = () => undefined;
  waiting = 0;
  readonly #claims = new Map<string, string>();

  /** A gateway with jobs of its own. */
  async open(t: TestContext) {
    const folder = await temporaryFolder();
    const log = recordingLog(this.lines);
    const jobs = await openLocalJobs({ directory: folder.path, log, clock: realClock, firstWaitMs: 5 });
    const alerts = createUsageAlerts({
      jobs: this.#watched(jobs),
      resources: { read: (work) => work(this.#reader()) },
      ledger: { claim: (claim) => this.#claim(claim) },
      settings: () => this.settings,
      fetch: () => testFetch({ trustedHosts: this.trustedHosts }),
      channels: new AlertChannels({
        settings: () => this.settings,
        sendMail: async (_, mail) => {
          await this.beforeMail(mail);
          this.taken.push(mail);
        },
        ...{ clock: this.clock, log, metrics: this.metrics },
      }),
      ...{ clock: this.clock, log },
    });
    await jobs.start();
    t.after(async () => {
      await alerts.close();
      await jobs.close();
      await folder.remove();
    });
    return { alerts, jobs };
  }

  /** The recipients of mails, sorted, when there are so many, and a moment later. */
  async recipients(count: number): Promise<string[]> {
    await eventually(() => this.taken.length >= count || undefined);
    await new Promise((resolve) => setTimeout(resolve, 50));
    return this.taken.map(({ to }) => to).sort();
  }

  #watched(jobs: Jobs): Pick<Jobs, 'define' | 'add' | 'counts'> {
    return {
      define: (definition) => jobs.define(definition),
      add: async (name, id, data) => {
        await this.beforeStoring(name, id);
        this.stored.push({ name, id, data });
        return jobs.add(name, id, data);
      },
      counts: async () => ({ ...(await jobs.counts()), waiting: this.waiting }),
    };
  }

  #claim({ key, kind, mark, by }: AlertClaim): Promise<boolean> {
    const id = `${key} ${kind} ${mark}`;
    if (!this.#claims.has(id)) this.#claims.set(id, by);
    return Promise.resolve(this.#claims.get(id) === by);
  }

  #reader(): ResourcesReader {
    const page = (emails: readonly string[]) => ({
      total: emails.length,
      data: emails.slice(0, 100).map((email) => ({ email })),
    });
    const reader = {
      organisations: { byId: () => Promise.resolve({ name: 'Initech' }) },
      workspaces: { find: (_: string, id: string) => Promise.resolve({ id, name: 'Research' }) },
      apiKeys: { find: () => Promise.resolve({ type: this.keyType }) },
      members: {
        list: () => Promise.resolve({ total: 0, data: this.managers.map((email) => ({ user: { email } })) }),
      },
      users: {
        list: (_: string, { role }: { role: string }) =>
          Promise.resolve(page(role === 'admin' ? this.admins : [])),
      },
    };
    return reader as unknown as ResourcesReader;
  }
}

describe('a usage crossing', () => {
  test('is mailed to those whom the key names, to managers, and to admins, each once', async (t) => {
    const place = new Place();
    place.managers = ['lead@example.com', 'admin@example.com'];
    const { alerts } = await place.open(t);
    alerts.crossed(crossing(1));
    alerts.crossed(crossing(1));
    assert.deepEqual(await place.recipients(3), ['admin@example.com', 'lead@example.com', 'ops@example.com']);
    const reasons = place.taken.map(({ to, text }) => `${to}: ${/because (.*)\.\n$/.exec(text)?.[1]}`);
    assert.deepEqual(reasons.sort(), [
      'admin@example.com: you manage the workspace',
      'lead@example.com: you manage the workspace',
      'ops@example.com: the key names your address in its alert_emails',
    ]);
    assert.equal(new Set(place.taken.map(({ id }) => id)).size, 3);
    assert.equal(place.metrics.values.get('weir_usage_alerts_total{channel=mail,outcome=sent}'), 3);
  });

  test('of a key of the organisation is no matter of the managers of its default workspace', async (t) => {
    const place = new Place();
    place.managers = ['lead@example.com'];
    place.keyType = 'organisation-service';
    const { alerts } = await place.open(t);
    alerts.crossed(crossing(1));
    assert.deepEqual(await place.recipients(2), ['admin@example.com', 'ops@example.com']);
  });

  test('is told to 100 people at the most, and to nobody without a word in the log', async (t) => {
    const place = new Place();
    place.admins = Array.from({ length: 120 }, (_, index) => `a${index}@example.com`);
    const { alerts } = await place.open(t);
    alerts.crossed(crossing(1));
    assert.equal((await place.recipients(100)).length, 100);
    assert.ok(place.lines.some(({ fields }) => fields['left_out'] === 1));
    place.admins = [];
    alerts.crossed(crossing(2, { emails: [] }));
    await eventually(
      () => place.lines.some(({ message }) => message.includes('nobody to go to')) || undefined,
    );
  });

  test('is told once by gateways that share a ledger and no jobs', async (t) => {
    const place = new Place();
    const [here, there] = [await place.open(t), await place.open(t)];
    for (const { alerts } of [here, there]) alerts.crossed(crossing(1));
    assert.deepEqual(await place.recipients(2), ['admin@example.com', 'ops@example.com']);
  });

  test('is told when jobs can be stored again, with one warning, and nothing is told twice', async (t) => {
    const place = new Place();
    const { alerts } = await place.open(t);
    place.beforeStoring = () => Promise.reject(new GatewayError('store_unavailable', 'away'));
    for (let number = 0; number < 3; number++) alerts.crossed(crossing(number));
    for (let seconds = 0; seconds < 600; seconds += 5) await place.clock.pass(5000);
    assert.equal(place.lines.filter(({ level }) => level === 'warn').length, 1);
    place.beforeStoring = () => undefined;
    await place.clock.pass(5000);
    assert.equal((await place.recipients(6)).length, 6);
    assert.ok(place.lines.some(({ message }) => message === 'Usage alerts are stored again'));
    assert.equal(place.clock.waiting, 0);
  });

  test('is told whole when its raising is cut short', async (t) => {
    const place = new Place();
    const { alerts } = await place.open(t);
    let mails = 0;
    place.beforeStoring = (name) => {
      if (name === 'alerts.mail' && ++mails === 2) throw new GatewayError('store_unavailable', 'away');
    };
    alerts.crossed(crossing(1));
    assert.deepEqual(await place.recipients(2), ['admin@example.com', 'ops@example.com']);
  });

  test('leaves room for other jobs', async (t) => {
    const place = new Place();
    const { alerts } = await place.open(t);
    place.waiting = 5000;
    alerts.crossed(crossing(1));
    await eventually(() => place.lines.some(({ level }) => level === 'warn') || undefined);
    assert.equal(place.taken.length, 0);
    place.waiting = 4999;
    assert.equal((await place.recipients(2)).length, 2);
  });

  test('is logged, and no more, where nobody is to be told', async (t) => {
    const place = new Place();
    place.settings = { webhooks: [] };
    const { alerts } = await place.open(t);
    alerts.crossed(crossing(1));
    await settle();
    assert.equal(place.stored.length, 0);
    assert.equal(place.lines[0]?.message, 'A usage limit is exhausted');
  });
});

describe('what waits to be told', () => {
  test('holds no secret, and its ids are short and name nobody', async (t) => {
    const place = new Place();
    place.settings = { smtp, webhooks: [{ url: 'https://example.com/s3cret', secret }] };
    const { alerts } = await place.open(t);
    const long = crossing(1, { id: 'x'.repeat(2000), emails: [`${'o'.repeat(200)}@example.com`] });
    alerts.crossed(long);
    await place.recipients(2);
    assert.deepEqual(place.stored.map(({ name }) => name).sort(), [
      'alerts.mail',
      'alerts.mail',
      'alerts.mail',
      'alerts.raise',
      'alerts.webhook',
    ]);
    for (const { id, data } of place.stored) {
      assert.ok(id.length <= 255 && !/@|example/.test(id));
      assert.ok(!JSON.stringify(data).includes('s3cret'));
    }
    for (const { message, fields } of place.lines)
      assert.doesNotMatch(message + JSON.stringify(fields) + String(fields['error']), /s3cret|@/);
  });

  test('is posted as the configuration says at that moment', async (t) => {
    const place = new Place();
    const other = `whsec_${'other+++'.repeat(4)}`;
    const { url, host, requests } = await startUpstream(t, (_, response) => {
      response.statusCode = requests.length === 1 ? 503 : 200;
      // Before the answer, so that no attempt with the old secret is under way.
      place.settings = { webhooks: [{ url, secret: other }] };
      response.end();
    });
    place.trustedHosts = [host];
    const elsewhere = { url: `${url}/threshold`, secret, events: ['usage.threshold_reached' as const] };
    place.settings = { webhooks: [{ url, secret }, elsewhere] };
    const { alerts } = await place.open(t);
    alerts.crossed(crossing(1));
    await eventually(() => place.metrics.values.get('weir_usage_alerts_total{channel=webhook,outcome=sent}'));
    const [first, second] = [requests[0], requests.at(-1)];
    assert.equal(first?.headers['webhook-id'], second?.headers['webhook-id']);
    assert.notEqual(first?.headers['webhook-signature'], second?.headers['webhook-signature']);
    assert.ok(requests.every((one) => one.url === '/'));
  });

  test('leaves a webhook alone for as long as its answer asks, an hour at the most', async (t) => {
    const place = new Place();
    const { url, host, requests } = await startUpstream(t, (_, response) => {
      response.writeHead(requests.length === 1 ? 429 : 200, { 'retry-after': '86400' }).end();
    });
    place.trustedHosts = [host];
    place.settings = { webhooks: [{ url, secret }] };
    const { alerts } = await place.open(t);
    alerts.crossed(crossing(1));
    await eventually(() => requests.length > 0 || undefined);
    place.clock.advance(3_599_000);
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.equal(requests.length, 1);
    place.clock.advance(1000);
    await eventually(() => place.metrics.values.get('weir_usage_alerts_total{channel=webhook,outcome=sent}'));
    assert.equal(requests.length, 2);
  });

  test('is dropped when the channel is no longer configured, and given up when it is refused for ever', async (t) => {
    const place = new Place();
    const { alerts } = await place.open(t);
    place.beforeMail = ({ to }) => {
      if (to.startsWith('ops')) throw new MailFailure('no such user', 'refused');
      throw new MailFailure('not now', 'mail');
    };
    alerts.crossed(crossing(1));
    await eventually(() => place.metrics.values.get('weir_usage_alerts_total{channel=mail,outcome=refused}'));
    place.settings = { webhooks: [] };
    await eventually(
      () => place.lines.some(({ message }) => message.includes('no longer configured')) || undefined,
    );
    assert.equal(place.taken.length, 0);
  });

  test('leaves a server alone that has just failed slowly', async (t) => {
    const place = new Place();
    place.admins = Array.from({ length: 30 }, (_, index) => `a${index}@example.com`);
    const { alerts } = await place.open(t);
    let tried = 0;
    place.beforeMail = () => {
      tried += 1;
      place.clock.advance(15_000);
      throw new MailFailure('no answer', 'server');
    };
    alerts.crossed(crossing(1));
    await eventually(() => tried > 0 || undefined);
    await new Promise((resolve) => setTimeout(resolve, 200));
    assert.ok(tried <= 4, `${tried} were tried`);
    place.beforeMail = () => undefined;
    await place.clock.pass(300_000);
    assert.equal((await place.recipients(31)).length, 31);
  });
});
