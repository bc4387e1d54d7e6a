import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { type Mail, MailFailure, type MailSettings } from '../../core/administration/alerts/mail.ts';
import { type MailServerOptions, mailHeader, startMailServer } from '../../tests/kit/mail-server.ts';
import { certificate } from '../../tests/kit/test-certificate.ts';
import { sendMail } from './send-mail.ts';

const mail: Mail = {
  to: 'ann@example.com',
  subject: 'Usage',
  text: 'Much.',
  html: '<p>Much.</p>',
  id: 'a1b2',
};
const users = { 'ann@mail': 'p/w@:%' };

async function place(t: TestContext, options: MailServerOptions = {}) {
  const server = await startMailServer(options);
  t.after(() => server.stop());
  const settings: MailSettings = {
    url: `smtp://127.0.0.1:${server.port}`,
    from: 'Weir <weir@gateway.example.com>',
  };
  return { server, settings };
}

async function failure(sending: Promise<void>): Promise<MailFailure> {
  const error: unknown = await sending.then(
    () => assert.fail('it was taken'),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof MailFailure);
  assert.doesNotMatch(error.message, /ann@|p\/w|\n/);
  return error;
}

describe('a mail', () => {
  test('is handed over as text and HTML, known again by its id', async (t) => {
    const { server, settings } = await place(t);
    await sendMail(settings, mail);
    const [taken] = server.mails;
    assert.ok(taken);
    assert.deepEqual(
      [taken.from, taken.to, taken.wasEncrypted],
      ['weir@gateway.example.com', [mail.to], false],
    );
    const head = ['from', 'to', 'subject', 'message-id', 'auto-submitted'].map((name) =>
      mailHeader(taken, name),
    );
    assert.deepEqual(head, [
      'Weir <weir@gateway.example.com>',
      'ann@example.com',
      'Usage',
      '<a1b2@gateway.example.com>',
      'auto-generated',
    ]);
    assert.match(taken.raw, /text\/plain[\s\S]*Much\.[\s\S]*text\/html[\s\S]*<p>Much\.<\/p>/);
  });

  test('goes to one address, and has the headers that it should, whatever is in them', async (t) => {
    const { server, settings } = await place(t);
    const subject = 'One\r\nBcc: eve@example.com\r\n\r\nTwo';
    await sendMail(settings, { ...mail, subject });
    assert.equal(server.mails[0]?.to[0], mail.to);
    await sendMail(settings, { ...mail, to: 'ann@example.com, eve@example.com' }).catch(() => undefined);
    await sendMail(settings, { ...mail, to: 'ann@example.com>\r\nRCPT TO:<eve@example.com' }).catch(
      () => undefined,
    );
    for (const taken of server.mails) {
      assert.equal(taken.to.length, 1);
      assert.notEqual(taken.to[0], 'eve@example.com');
      assert.equal(mailHeader(taken, 'bcc'), '');
    }
  });

  for (const kind of ['offered', 'from the start'] as const)
    test(`is encrypted where TLS is ${kind}, to a server whose certificate is trusted`, async (t) => {
      const { server, settings } = await place(t, { tls: kind });
      const url = kind === 'offered' ? settings.url : settings.url.replace('smtp:', 'smtps:');
      const distrust = await failure(sendMail({ ...settings, url }, mail));
      assert.equal(distrust.kind, 'server');
      await sendMail({ ...settings, url, ca: certificate }, mail);
      assert.deepEqual(
        server.mails.map(({ wasEncrypted }) => wasEncrypted),
        [true],
      );
    });

  test('is not sent in the clear where TLS is required, and never with a password unless that is allowed', async (t) => {
    const { server, settings } = await place(t, { users });
    const withPassword = { ...settings, username: 'ann@mail', password: users['ann@mail'] };
    for (const strict of [{ ...settings, require_tls: true }, withPassword])
      assert.equal((await failure(sendMail(strict, mail))).kind, 'server');
    assert.equal(server.mails.length, 0);
    await sendMail({ ...withPassword, require_tls: false }, mail);
    assert.equal(server.mails[0]?.user, 'ann@mail');
  });

  test('is sent by a user, whose password may stand in the address', async (t) => {
    const { server, settings } = await place(t, { users, tls: 'offered' });
    const trusting = { ...settings, ca: certificate };
    const userinfo = `${encodeURIComponent('ann@mail')}:${encodeURIComponent(users['ann@mail'])}@`;
    await sendMail({ ...trusting, url: settings.url.replace('//', `//${userinfo}`) }, mail);
    assert.deepEqual(
      server.mails.map(({ user, wasEncrypted }) => [user, wasEncrypted]),
      [['ann@mail', true]],
    );
    const refused = await failure(sendMail({ ...trusting, username: 'ann@mail', password: 'p/w' }, mail));
    assert.equal(refused.message, 'The mail was not taken: the server refuses the user or the password.');
    assert.equal(refused.kind, 'server');
  });

  test('that a server refuses for now is another one than that which it refuses for ever', async (t) => {
    const { settings } = await place(t, { refusal: (to) => (to.startsWith('ann') ? 550 : 450) });
    const forEver = await failure(sendMail(settings, mail));
    assert.equal(forEver.kind, 'refused');
    assert.match(forEver.message, /550 <\*\*\*> is refused/);
    assert.equal((await failure(sendMail(settings, { ...mail, to: 'bob@example.com' }))).kind, 'mail');
  });

  test('waits for a server that is away, and says so', async (t) => {
    const { server, settings } = await place(t);
    await server.stop();
    const away = await failure(sendMail(settings, mail));
    assert.deepEqual([away.kind, /ECONNREFUSED/.test(away.message)], ['server', true]);
    const again = await startMailServer({ port: server.port });
    t.after(() => again.stop());
    await sendMail(settings, mail);
    assert.equal(again.mails.length, 1);
  });
});
