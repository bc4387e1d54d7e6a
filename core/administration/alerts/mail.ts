/** One mail to one person. */
export interface Mail {
  /** One address, whatever is in it. */
  readonly to: string;
  /** Without line breaks. */
  readonly subject: string;
  readonly text: string;
  readonly html: string;
  /** Letters and digits; the same for the same mail, so that mail systems know a second one. */
  readonly id: string;
}

/** The mail server and how it is spoken to. */
export interface MailSettings {
  /** `smtp://` or `smtps://`, host and port, perhaps with a user and a password. */
  readonly url: string;
  /** Instead of those in `url`. */
  readonly username?: string;
  readonly password?: string;
  /** With `smtp://`: nothing is sent without STARTTLS. Default: true where there is a password, else false. */
  readonly require_tls?: boolean;
  /** Certificates (PEM) that the server's own has to lead to. Default: those of public authorities. */
  readonly ca?: string;
  /** `weir@example.com` or `Weir <weir@example.com>`. */
  readonly from: string;
}

/** A mail was not handed over. The message holds no address and no password. */
export class MailFailure extends Error {
  /**
   * What failed: the server (away, slow, refuses the login: every other mail would fail too), this mail for now, or this
   * mail for ever.
   */
  readonly kind: 'server' | 'mail' | 'refused';

  constructor(message: string, kind: MailFailure['kind']) {
    super(message);
    this.kind = kind;
  }
}

/** Hands a mail over to a server. Rejects with `MailFailure`. */
export type SendMail = (settings: MailSettings, mail: Mail) => Promise<void>;
