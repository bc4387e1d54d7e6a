import { Type } from 'typebox';
import { section } from './schema-section.ts';

/** Section `storage.resources`: the embedded engine, or a PostgreSQL server and how to speak to it. */
export const ResourcesStore = Type.Object(
  {
    url: Type.Optional(
      Type.String({
        default: 'pglite:',
        // Whatever holds credentials passes here: the next rule refuses a wrong scheme without quoting it.
        pattern: '^(pglite:.*|none:|.*@.*|postgres(ql)?://.+)$',
        not: {
          pattern: '^(?!pglite:|postgres(ql)?://).*@',
          'x-expected': 'an address that begins with "postgres://"',
        },
        'x-expected':
          '"pglite:", "pglite:" and a directory, "postgres://USER@HOST:5432/DATABASE", or "none:"',
        description:
          'Where organisations, workspaces, keys and the record of changes live: `pglite:` (embedded, under the data folder), `pglite:DIR`, a PostgreSQL server as `postgres://USER:PASSWORD@HOST:5432/DATABASE` (`?sslmode=require` or `verify-full` for TLS; database `weir` when none is named), or `none:` (nothing can be administered; only the keys of the data folder and of this file exist). See docs/postgres.md.',
      }),
    ),
    password: Type.Optional(
      Type.String({
        maxLength: 1024,
        description:
          'Instead of one in `url`, where special characters have to be escaped. Best from a variable: "${POSTGRES_PASSWORD}".',
      }),
    ),
    ca_file: Type.Optional(
      Type.String({
        minLength: 1,
        description:
          'Certificates (PEM) of the authorities to trust instead of the usual ones; relative to the configuration file. For `?sslmode=verify-full`.',
      }),
    ),
  },
  { ...section, description: 'What is administered.' },
);
