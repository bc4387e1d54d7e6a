import { MailFailure, type MailSettings, type SendMail } from '../../core/administration/alerts/mail.ts';
import { redactText, namedPattern } from '../../core/redaction/redact-text.ts';

const timeoutMs = 15_000;
const longestReason = 200;

/** Sends a mail on a connection of its own through nodemailer, which is loaded on first use. 15 s per step. */
export const sendMail: SendMail = async (settings, mail) => {
  const { createTransport } = await import('nodemailer');
  const transport = createTransport({
    ...serverOf(settings),
    connectionTimeout: timeoutMs,
    greetingTimeout: timeoutMs,
    socketTimeout: timeoutMs,
    dnsTimeout: timeoutMs,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  try {
    await transport.sendMail({
      from: settings.from,
      // As an object it is a single address, whatever its content.
      to: { name: '', address: mail.to },
      subject: mail.subject,
      text: mail.text,
      html: mail.html,
      messageId: `<${mail.id}@${domainOf(settings)}>`,
      // Suppresses out-of-office replies.
      headers: { 'Auto-Submitted': 'auto-generated', 'X-Auto-Response-Suppress': 'All' },
    });
  } catch (thrown) {
    throw failureOf(thrown);
  } finally {
    transport.close();
  }
};

function serverOf(settings: MailSettings) {
  const url = new URL(settings.url);
  const user = settings.username ?? decodeURIComponent(url.username);
  const pass = settings.password ?? decodeURIComponent(url.password);
  return {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    secure: url.protocol === 'smtps:',
    requireTLS: settings.require_tls ?? pass !== '',
    ...(url.port !== '' && { port: Number(url.port) }),
    ...(user !== '' && { auth: { user, pass } }),
    ...(settings.ca !== undefined && { tls: { ca: settings.ca } }),
  };
}

function domainOf({ from }: Pick<MailSettings, 'from'>): string {
  return from.slice(from.lastIndexOf('@') + 1).replace('>', '');
}

/** Error of nodemailer. */
interface SmtpError {
  readonly message?: string;
  /** `EAUTH`, `EENVELOPE` … */
  readonly code?: string;
  readonly command?: string;
  /** The server's reply code, such as 550; absent without a reply. */
  readonly responseCode?: number;
}

/** Replies of a server repeat the address, and may repeat other parts of the request. */
function failureOf(thrown: unknown): MailFailure {
  const { message = String(thrown), code = '', command = '', responseCode } = thrown as SmtpError;
  if (code === 'EAUTH')
    return new MailFailure('The mail was not taken: the server refuses the user or the password.', 'server');
  const line = message.replace(/\s+/g, ' ').slice(0, longestReason);
  const reason = redactText(line, [{ find: namedPattern('email', ''), replacement: '***' }]);
  // A refused sender is a configuration error, which can be corrected.
  const isOfMail = (code === 'EENVELOPE' || code === 'EMESSAGE') && command !== 'MAIL FROM';
  const isForEver = responseCode === undefined || responseCode >= 500;
  return new MailFailure(
    `The mail was not taken: ${reason}`,
    !isOfMail ? 'server' : isForEver ? 'refused' : 'mail',
  );
}
