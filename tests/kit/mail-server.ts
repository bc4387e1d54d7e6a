/** A real SMTP server for tests, on 127.0.0.1. */
import type { AddressInfo } from 'node:net';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import { certificate, certificateKey } from './test-certificate.ts';

/** A mail as it was taken. */
export interface TakenMail {
  readonly from: string;
  /** Of the envelope. */
  readonly to: readonly string[];
  /** Head and bodies as they came. */
  readonly raw: string;
  readonly wasEncrypted: boolean;
  /** The user of the login. */
  readonly user: string | undefined;
}

/** What a server is to be; by default it takes everything, unencrypted. */
export interface MailServerOptions {
  /** Default: a free one. */
  readonly port?: number;
  /** TLS from the start, or offered by STARTTLS. */
  readonly tls?: 'from the start' | 'offered';
  /** Those who may log in, with their passwords; everybody has to then. */
  readonly users?: Readonly<Record<string, string>>;
  /** What to answer to a recipient instead of taking it: 450, 550 … */
  readonly refusal?: (to: string) => number | undefined;
}

/** One server. */
export interface MailServer {
  readonly port: number;
  /** In the order in which they were taken. */
  readonly mails: readonly TakenMail[];
  /** Cuts what is open. */
  stop(): Promise<void>;
}

/** Starts one. */
export async function startMailServer(options: MailServerOptions = {}): Promise<MailServer> {
  const mails: TakenMail[] = [];
  const { port = 0, tls, users, refusal } = options;
  const server = new SMTPServer({
    ...({ key: certificateKey, cert: certificate, logger: false } satisfies SMTPServerOptions),
    secure: tls === 'from the start',
    hideSTARTTLS: tls !== 'offered',
    authOptional: users === undefined,
    allowInsecureAuth: tls === undefined,
    disableReverseLookup: true,
    closeTimeout: 100,
    onAuth({ username = '', password }, _session, done) {
      if (users?.[username] !== undefined && users[username] === password) done(null, { user: username });
      else done(new Error(`Invalid login of ${username} with ${password}`));
    },
    onRcptTo({ address }, _session, done) {
      const responseCode = refusal?.(address);
      if (responseCode === undefined) done();
      else done(Object.assign(new Error(`<${address}> is refused`), { responseCode }));
    },
    onData(stream, { envelope, secure, user }, done) {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        mails.push({
          from: envelope.mailFrom === false ? '' : envelope.mailFrom.address,
          to: envelope.rcptTo.map(({ address }) => address),
          raw: Buffer.concat(chunks).toString('utf8'),
          wasEncrypted: secure,
          user,
        });
        done();
      });
    },
  });
  server.on('error', () => undefined);
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return {
    port: (server.server.address() as AddressInfo).port,
    mails,
    stop: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

/** One header of a mail, unfolded; empty when it is not there. */
export function mailHeader({ raw }: Pick<TakenMail, 'raw'>, name: string): string {
  const head = raw.slice(0, raw.indexOf('\r\n\r\n')).replace(/\r\n[ \t]+/g, ' ');
  const line = head.split('\r\n').find((one) => one.toLowerCase().startsWith(`${name.toLowerCase()}: `));
  return line?.slice(name.length + 2) ?? '';
}
