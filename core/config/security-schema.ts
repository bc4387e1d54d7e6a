import { Type } from 'typebox';
import { section } from './describe-schema.ts';

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
          'Prefix of the environment variables that secret references of the type `environment` may read; variables that begin with `WEIR_` are always excluded. Empty: none.',
      }),
    ),
    folder: Type.Optional(
      Type.String({
        default: '',
        pattern: '^(/.*)?$',
        'x-expected': 'an absolute path, such as "/run/secrets"',
        description: 'Folder whose files secret references of the type `file` may read. Empty: none.',
      }),
    ),
    machine_identity: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Whether secret references may use the identity of this machine at secret managers: AWS keys of the environment, a managed or federated identity of Azure, the service account of a pod. Keys that manage secret references can then read everything that this identity can read.',
      }),
    ),
  },
  {
    ...section,
    description:
      'Resources of the machine of the gateway that secret references may read. [secrets.md](secrets.md) explains it.',
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
          'Hosts (`host` or `host:port`, exact) that requests may name even though they are private: as custom host, or as address of an image. Public hosts need no entry.',
      }),
    ),
    key_prefix: Type.Optional(
      Type.String({
        default: 'wk_',
        minLength: 1,
        maxLength: 16,
        description:
          'Prefix of service keys; it distinguishes them from provider keys in an Authorization header.',
      }),
    ),
    directory_max_age: Type.Optional(
      Type.Integer({
        default: 900,
        minimum: 10,
        maximum: 604_800,
        description:
          "Seconds for which the gateway uses keys and workspaces after it last read them from a PostgreSQL server. While the server cannot be read, a key revoked on another gateway is still accepted for this long; after that, keys of the store are refused with 503 and `/readyz` reports it. The limit also applies across a restart. It does not apply to the owner's key and the keys of this file.",
      }),
    ),
    refused_attempts_days: Type.Optional(
      Type.Integer({
        default: 30,
        minimum: 0,
        maximum: 99_999,
        description:
          'Days for which the audit trail keeps refused attempts at administration; 0: forever. Successful actions are kept forever. A change needs a restart.',
      }),
    ),
    secret_sources: Type.Optional(SecretSources),
  },
  { ...section, description: 'Restrictions on requests, keys and secrets.' },
);
