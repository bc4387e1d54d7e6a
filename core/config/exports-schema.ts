import { Type } from 'typebox';
import { exportFields } from '../ports/export-fields.ts';
import { section } from './schema-section.ts';

const Field = Type.Enum([...exportFields], { 'x-expected': 'a field of an export, such as "request"' });
const key = (description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength: 4096, description }));

/** Section `exports`: where files with logs go, and what may be in them. */
export const Exports = Type.Object(
  {
    url: Type.Optional(
      Type.String({
        default: 'file:',
        pattern: '^(file:(/.*)?|s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_-][A-Za-z0-9._-]*)*/?)$',
        'x-expected': '"file:", "file:/DIR" or "s3://BUCKET/PREFIX"',
        description:
          'Where exported files are kept: `file:` (under the data folder), `file:/DIR` (a folder that gateways may share), or a bucket of a store that speaks S3 as `s3://BUCKET/PREFIX`. See docs/exports.md.',
      }),
    ),
    expires_days: Type.Optional(
      Type.Number({
        default: 7,
        exclusiveMinimum: 0,
        maximum: 3650,
        description: 'How long a file is kept after its export has ended.',
      }),
    ),
    max_rows: Type.Optional(
      Type.Integer({
        default: 10_000_000,
        minimum: 1,
        maximum: 1_000_000_000,
        description: 'The most rows of one file; an export about more of them is refused.',
      }),
    ),
    link_minutes: Type.Optional(
      Type.Integer({
        default: 60,
        minimum: 1,
        maximum: 10_080,
        description:
          'How long a link to a file opens. Whoever has the link can fetch the file without a key.',
      }),
    ),
    denied_fields: Type.Optional(
      Type.Array(Field, {
        default: [],
        maxItems: exportFields.length,
        description:
          'What no export may hold: `request`, `response`, … Exports that ask for it are refused with 403.',
      }),
    ),
    region: Type.Optional(
      Type.String({
        default: 'us-east-1',
        pattern: '^[a-z0-9-]{1,64}$',
        'x-expected': 'a region, such as "eu-central-1"',
        description: 'Of the bucket.',
      }),
    ),
    endpoint: Type.Optional(
      Type.String({
        default: '',
        // Whatever holds credentials passes here: the next rule refuses it without quoting it.
        pattern: '^(https?://(.*@.*|[^\\s/?#@]+))?$',
        not: {
          pattern: '@',
          'x-expected':
            'an address without a user name and a password; put the keys into "access_key_id" and "secret_access_key" beside it',
        },
        'x-expected': 'an origin such as "https://minio.internal:9000"',
        description: 'Where the store is reached that speaks S3. Empty: AWS in that region.',
      }),
    ),
    path_style: Type.Optional(
      Type.Boolean({
        default: false,
        description: 'The bucket stands in the path instead of the host name, as MinIO and others want it.',
      }),
    ),
    access_key_id: key('Without it: AWS_ACCESS_KEY_ID of the environment.'),
    secret_access_key: key('Best from a variable. Without it: AWS_SECRET_ACCESS_KEY of the environment.'),
    session_token: key('For keys that are given for a while. Without it: AWS_SESSION_TOKEN.'),
  },
  { ...section, description: 'Logs as files. Changes need a restart.' },
);
