import { Type } from 'typebox';
import { section } from './schema-object.ts';

const byte = '(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])';
const ipv4 = `(${byte}\\.){3}${byte}`;
const group = '[0-9A-Fa-f]{1,4}';
const ipv6 = [
  `(${group}:){7}${group}`,
  `(${group}:){1,7}:`,
  ...[1, 2, 3, 4, 5, 6].map((after) => `(${group}:){1,${7 - after}}(:${group}){1,${after}}`),
  `:(:${group}){1,7}`,
  '::',
  `::([Ff]{4}:)?${ipv4}`,
].join('|');

/**
 * Pattern of an address or a range of addresses: IPv4 or IPv6, with or without prefix length, or one of the words
 * `loopback` and `private`.
 */
export const addressRangePattern = `^(loopback|private|${ipv4}(/(3[0-2]|[12]?[0-9]))?|(${ipv6})(/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))?)$`;

const SecretSources = Type.Object(
  {
    environment_prefix: Type.Optional(
      Type.String({
        default: '',
        maxLength: 255,
        pattern: '^([A-Za-z_][A-Za-z0-9_]*)?$',
        'x-expected': 'the beginning of names of environment variables, such as "SECRET_"',
        description:
          'Environment variables whose names begin with it may be read by secret references of the type `environment`; never those that begin with `WEIR_`. Empty: none.',
      }),
    ),
    folder: Type.Optional(
      Type.String({
        default: '',
        pattern: '^(/.*)?$',
        'x-expected': 'an absolute path, such as "/run/secrets"',
        description: 'Files below it may be read by secret references of the type `file`. Empty: none.',
      }),
    ),
    machine_identity: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Whether secret references may ask managers in the name of this machine: with AWS keys of the environment, a managed or federated identity of Azure, the service account of a pod. Keys that manage secret references can then read whatever the machine can.',
      }),
    ),
  },
  {
    ...section,
    description:
      'What secret references may read of the machine that the gateway runs on. [secrets.md](secrets.md) explains it.',
  },
);

/** `security:` of the file. */
export const Security = Type.Object(
  {
    trusted_hosts: Type.Optional(
      Type.Array(Type.String(), {
        default: [],
        maxItems: 1000,
        description:
          'Hosts (`host` or `host:port`, exact) that a request may name although they are private: as custom host, as address of an image. Public hosts need no entry.',
      }),
    ),
    key_prefix: Type.Optional(
      Type.String({
        default: 'wk_',
        minLength: 1,
        maxLength: 16,
        description:
          'What service keys begin with; it tells them from provider keys in an Authorization header.',
      }),
    ),
    directory_max_age: Type.Optional(
      Type.Integer({
        default: 900,
        minimum: 10,
        maximum: 604_800,
        description:
          "Seconds for which keys and workspaces of a PostgreSQL server are relied on after it was read last. While it cannot be read, a key that was revoked elsewhere is accepted for so long; then keys of the store are refused with 503 and `/readyz` says so. It holds over a restart too. The owner's key and those of this file are not concerned.",
      }),
    ),
    refused_attempts_days: Type.Optional(
      Type.Integer({
        default: 30,
        minimum: 0,
        maximum: 99_999,
        description:
          'Days that attempts at administration which were refused stay in the audit trail; 0: for ever. Actions that succeeded stay for ever. A change needs a restart.',
      }),
    ),
    secret_sources: Type.Optional(SecretSources),
  },
  { ...section, description: 'What requests may do.' },
);
