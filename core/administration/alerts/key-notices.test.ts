import assert from 'node:assert/strict';
import { test } from 'node:test';
import { temporaryFolder } from '../../../storage/embedded/chdb-fixture.ts';
import { openLocalJobs } from '../../../storage/jobs/local-jobs.ts';
import { ManualClock } from '../../../tests/conformance/manual-clock.ts';
import { aKey, anOrganisation, aUser } from '../../../tests/conformance/resources-records.ts';
import { openTestResources } from '../../../tests/kit/administration-kit.ts';
import { eventually } from '../../../tests/kit/process-kit.ts';
import {
  realClock,
  recordingLog,
  RecordingMetrics,
} from '../../lifecycle/recording-services.test-support.ts';
import type { JobDefinition } from '../../ports/jobs.ts';
import { AlertChannels } from './alert-channels.ts';
import { defineKeyNotices } from './key-notices.ts';
import type { Mail } from './mail.ts';

const hour = 3_600_000;
const day = 24 * hour;

test('people are told of rotations and ends of keys, once each, by mails without secrets', async (t) => {
  const resources = await openTestResources({ after: (close) => t.after(close) });
  const folder = await temporaryFolder();
  const clock = new ManualClock();
  const now = clock.now();
  const log = recordingLog([]);
  const jobs = await openLocalJobs({ directory: folder.path, log, clock: realClock, firstWaitMs: 5 });
  t.after(async () => {
    await jobs.close();
    await folder.remove();
  });
  const mails: Mail[] = [];
  let canMail = false;
  const settings = () => ({ smtp: { url: 'smtp://mail', from: 'weir@example.com' }, webhooks: [] });
  const sendMail = (_: unknown, mail: Mail) => Promise.resolve(void mails.push(mail));
  const channels = new AlertChannels({ settings, sendMail, clock, log, metrics: new RecordingMetrics() });
  const definitions = new Map<string, JobDefinition<never>>();
  defineKeyNotices({
    jobs: {
      define: (definition) => {
        definitions.set(definition.name, definition);
        jobs.define(definition);
      },
      repeat: () => undefined,
      add: (name, id, data) => jobs.add(name, id, data),
      counts: () => jobs.counts(),
    },
    ...{ resources, channels, canMail: () => canMail, clock, log },
  });
  await jobs.start();
  const run = async (): Promise<void> => {
    const { signal } = new AbortController();
    await definitions.get('keys.tell')?.handle({ id: 'run', data: {} as never, attempt: 1, signal });
  };
  /** `recipient: subject` of so many mails more, sorted. */
  const news = async (count: number): Promise<string[]> => {
    await run();
    await eventually(() => mails.length >= count || undefined);
    await new Promise((resolve) => setTimeout(resolve, 50));
    return mails
      .splice(0)
      .map(({ to, subject }) => `${to}: ${subject}`)
      .sort();
  };

  const organisation = anOrganisation();
  const { id: organisationId } = organisation;
  const bare = { expiresAt: undefined, rotation: undefined, alertEmails: [], createdAt: now - 30 * day };
  const rotation = { transitionMs: 3 * day, days: 7, nextAt: now + 25 * hour };
  const ada = aUser(organisationId, { email: 'ada@example.com', role: 'member' });
  const admin = aUser(organisationId, { email: 'admin@example.com', role: 'admin' });
  const rotating = aKey(organisationId, { ...bare, name: 'R', rotation, alertEmails: ['ops@example.com'] });
  const unasked = { ...bare, expiresAt: now + 24 * hour };
  const ending = { ...unasked, alertEmails: ['team@example.com'] };
  await resources.write(organisationId, async ({ organisations, apiKeys, users }) => {
    await organisations.ensure(organisation);
    await users.insert(ada);
    await users.insert(admin);
    await apiKeys.insert(rotating);
    await apiKeys.insert(
      aKey(organisationId, { ...ending, name: 'Hers', type: 'workspace-user', userId: ada.id }),
    );
    await apiKeys.insert(aKey(organisationId, { ...ending, name: "Nobody's" }));
    const { id: userId } = ada;
    await apiKeys.insert(
      aKey(organisationId, { ...unasked, name: 'Unasked', type: 'workspace-user', userId }),
    );
    await apiKeys.insert(aKey(organisationId, { ...unasked, name: 'Unasked, of nobody' }));
    await apiKeys.insert(aKey(organisationId, { ...ending, name: 'Short', createdAt: now }));
  });
  assert.deepEqual(await news(0), [], 'without a mail server nothing is told');
  canMail = true;
  const tomorrow = `${new Date(now + day).toISOString().slice(0, 16).replace('T', ' ')} UTC`;
  const ends = (name: string) => `The key "${name}" ends at ${tomorrow}`;
  assert.deepEqual(await news(3), [
    `ada@example.com: ${ends('Hers')}`,
    `team@example.com: ${ends('Hers')}`,
    `team@example.com: ${ends("Nobody's")}`,
  ]);
  assert.deepEqual(await news(0), []);

  clock.advance(hour);
  const [warned = ''] = await news(1);
  assert.match(warned, /^ops@example.com: The key "R" is rotated at /);

  // As the job of rotations does.
  const secretEnds = clock.now() + 3 * day;
  await resources.write(organisationId, ({ apiKeys }) =>
    apiKeys.replace({
      ...rotating,
      secrets: [{ hash: rotating.secrets[0]?.hash ?? '', expiresAt: secretEnds }],
      rotation: { ...rotation, nextAt: now + 8 * day },
      version: 2,
    }),
  );
  await run();
  await eventually(() => mails.length > 0 || undefined);
  const [mail] = mails.splice(0);
  assert.match(mail?.subject ?? '', /^The key "R" was rotated: its secret ends at /);
  assert.match(mail?.text ?? '', new RegExp(`POST /api-keys/${rotating.id}/rotate answers the new secret`));
  assert.match(mail?.text ?? '', /because the key names your address in its alert_emails/);
  assert.deepEqual(await news(0), []);
  clock.advance(2 * day);
  assert.match((await news(1)).join(), /The secret of the key "R" ends at /);
  assert.deepEqual(await news(0), []);
});
