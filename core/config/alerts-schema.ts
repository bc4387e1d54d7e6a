import { type Static, Type } from 'typebox';
import { section, strict } from './describe-schema.ts';

const Smtp = Type.Object(
  {
    url: Type.String({
      maxLength: 2048,
      // Accepts every address with credentials: the next rule refuses it without quoting it.
      pattern: '^(.*@.*|smtps?://[^\\s/?#@]+)$',
      not: {
        pattern: '^(?!smtps?://[^\\s/?#@]+$)(?!smtps?://([^\\s/?#@%]|%[0-9A-Fa-f]{2})+@[^\\s/?#@]+$).*@',
        'x-expected':
          'an address such as "smtp://USER:PASSWORD@HOST:587"; escape special characters of the password (%40 for @), or put it into "password" beside it',
      },
      'x-expected': 'an address such as "smtp://HOST:587" or "smtps://HOST"',
      description:
        'The mail server: `smtp://HOST:587`, encrypted by STARTTLS where the server offers it, or `smtps://HOST` for TLS from the start. It may hold a user and a password: `smtp://USER:PASSWORD@HOST:587`.',
    }),
    username: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 320,
        description: 'User at the mail server, instead of one in `url`.',
      }),
    ),
    password: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 1024,
        description:
          'Password at the mail server, instead of one in `url`, where it has to be escaped: `${SMTP_PASSWORD}`.',
      }),
    ),
    require_tls: Type.Optional(
      Type.Boolean({
        description:
          'With `smtp://`: send nothing to a server that does not offer STARTTLS. Default: true if a password is set, else false.',
      }),
    ),
    ca: Type.Optional(
      Type.String({
        pattern: '-----BEGIN CERTIFICATE-----',
        'x-expected': 'certificates as PEM, such as "${file:mail-ca.pem}"',
        description:
          'Certificates (PEM) of the authorities to trust for the mail server, instead of the public ones: `${file:mail-ca.pem}`.',
      }),
    ),
    from: Type.String({
      maxLength: 320,
      pattern: '^([^<>@\\r\\n]*<[^<>@\\s]+@[^<>@\\s]+>|[^<>@\\s]+@[^<>@\\s]+)$',
      'x-expected': 'an e-mail address such as "Weir <weir@example.com>"',
      description: 'Sender of the mail: `weir@example.com` or `Weir <weir@example.com>`.',
    }),
  },
  { ...strict, description: 'Mail server for alerts. Without it the gateway sends no mail.' },
);

const Webhook = Type.Object(
  {
    url: Type.String({
      maxLength: 2048,
      // Accepts an address with credentials: the next rule refuses it without quoting it.
      pattern: '^https?://(.*@.*|[^\\s/?#@]+([/?][^\\s#]*)?)$',
      not: {
        pattern: '^https?://([^/?#]*@|.*[\\s#])',
        'x-expected':
          'an address without a user name, a password, spaces and "#"; the secret signs what is sent',
      },
      'x-expected': 'an address such as "https://example.com/hooks/usage"',
      description:
        'URL that receives events by POST. A private host has to be listed in `security.trusted_hosts` as well.',
    }),
    secret: Type.String({
      pattern: '^whsec_[A-Za-z0-9+/]{32,88}={0,2}$',
      'x-expected': '"whsec_" and 24 to 64 bytes in base64',
      description:
        'Key that signs each event, as Standard Webhooks defines: `whsec_` and 24 to 64 bytes in base64. Best read from an environment variable.',
    }),
    events: Type.Optional(
      Type.Array(
        Type.Union([
          Type.Literal('usage.threshold_reached'),
          Type.Literal('usage.limit_exhausted'),
          Type.Literal('rate_limit.reached'),
        ]),
        {
          minItems: 1,
          maxItems: 3,
          uniqueItems: true,
          description: 'Events to post. Default: all.',
        },
      ),
    ),
  },
  strict,
);

/** `alerts:` of the file. */
export const Alerts = Type.Object(
  {
    smtp: Type.Optional(Smtp),
    webhooks: Type.Optional(
      Type.Array(Webhook, {
        default: [],
        maxItems: 20,
        description: 'Webhooks, each delivered independently.',
      }),
    ),
  },
  {
    ...section,
    description:
      'Recipients of alerts about usage that reaches a threshold or a limit. [alerts.md](alerts.md) explains it.',
  },
);

/** The block in use: defaults filled in. */
export interface AlertSettings {
  readonly smtp?: Readonly<Static<typeof Smtp>>;
  readonly webhooks: readonly Readonly<Static<typeof Webhook>>[];
}
