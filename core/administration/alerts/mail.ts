/** One mail to one person. */
export interface Mail {
  /** One address, used verbatim. */
  readonly to: string;
  /** Without line breaks. */
  readonly subject: string;
  readonly text: string;
  readonly html: string;
  /** Letters and digits; equal for equal mails, so that mail systems detect a duplicate. */
  readonly id: string;
}

/** Mail server, credentials and TLS. */
export interface MailSettings {
  /** `smtp://` or `smtps://`, host and port, optionally with a user and a password. */
  readonly url: string;
  /** Overrides the user and password in `url`. */
  readonly username?: string;
  readonly password?: string;
  /** With `smtp://`: requires STARTTLS before anything is sent. Default: true with a password, else false. */
  readonly require_tls?: boolean;
  /** Certificate authorities (PEM) for the server's certificate. Default: the public ones. */
  readonly ca?: string;
  /** `weir@example.com` or `Weir <weir@example.com>`. */
  readonly from: string;
}

/** A mail that was not accepted. The message holds no address and no password. */
export class MailFailure extends Error {
  /**
   * Scope of the failure: the server (away, slow, or refuses the login: every other mail would fail too), this mail
   * temporarily (`mail`), or this mail for ever (`refused`).
   */
  readonly kind: 'server' | 'mail' | 'refused';

  constructor(message: string, kind: MailFailure['kind']) {
    super(message);
    this.kind = kind;
  }
}

/** Submits a mail to a server. Rejects with `MailFailure`. */
export type SendMail = (settings: MailSettings, mail: Mail) => Promise<void>;
