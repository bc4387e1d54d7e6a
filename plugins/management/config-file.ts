import type { RouteDefinition, RouteInput } from '../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, type Static, Type } from '../../core/pipeline/plugin.ts';
import type { ConfigFileEditor } from '../../core/ports/config-file.ts';
import { strict } from './shared/fields.ts';

const path = '/admin/config-file';
const maxText = 524_288;

const Draft = Type.Object(
  {
    text: Type.String({
      maxLength: maxText,
      description:
        'The whole file. Masks (`"***1***"`) stand for the secrets of the file, which stay as they are.',
    }),
    version: Type.String({
      maxLength: 64,
      description: 'The version of the file that the text was made from.',
    }),
  },
  strict,
);
const Fault = Type.Object({
  file: Type.String({ description: 'The file, or one that it includes, without folders.' }),
  line: Type.Integer({ description: 'From 1; 0 when the place is unknown.' }),
  column: Type.Integer(),
  message: Type.String(),
  severity: Type.Union([Type.Literal('error'), Type.Literal('warning'), Type.Literal('note')]),
});
const object = Type.Literal('config-file');
const Shown = Type.Object({
  object,
  writes: Type.Boolean({ description: 'Whether `config_writes` lets owners read and write the text.' }),
  name: Type.String(),
  text: Type.Union([Type.String(), Type.Null()], {
    description: 'Literal secrets are masks. Null: see `reason`.',
  }),
  reason: Type.Union([Type.String(), Type.Null()]),
  masked: Type.Integer({ description: 'Number of masks in the text.' }),
  version: Type.String(),
});
const Checked = Type.Object({
  object: Type.Literal('config-check'),
  valid: Type.Boolean(),
  faults: Type.Array(Fault),
});
const Written = Type.Object({
  object,
  outcome: Type.Union([Type.Literal('swapped'), Type.Literal('unchanged'), Type.Literal('failed')], {
    description:
      '`swapped`: it serves. `unchanged`: it says what served before. `failed`: it could not start, what served before serves on, and the file has its former text again.',
  }),
  faults: Type.Array(Fault),
  restart_needed: Type.Union([Type.String(), Type.Null()]),
  version: Type.String(),
});

const version = '5f0c2a9d4b7e1836a1d2c3b4e5f60718';
const text =
  'version: 1\npipelines:\n  - name: gateway\n    match: { path: /** }\n    plugins: [auth, provider]\n';
const fault: Static<typeof Fault> = {
  file: 'gateway.config.yaml',
  ...{ line: 3, column: 5, severity: 'error' },
  message: 'unknown key "nam"; did you mean "name"?',
};

const off = 'Set the option of the plugin: management: { config_writes: true }.';

/** The routes of the configuration file: its text is read, checked and written by owners, where the operator allows it. */
export function configFileRoutes({ configFile }: Scope, writes: boolean): readonly RouteDefinition[] {
  const editable = (key: RouteInput<unknown, unknown, unknown>['key']): ConfigFileEditor => {
    requireOwner(key);
    if (writes && configFile !== undefined) return configFile;
    throw new GatewayError('not_supported', `The configuration file cannot be changed over the API. ${off}`);
  };
  return [
    defineRoute({
      id: 'config_file.get',
      method: 'GET',
      path,
      summary: 'The text of the configuration file, its literal secrets masked; for owners',
      scope: 'organisation_settings.update',
      // Reads only.
      audit: null,
      reply: Shown,
      examples: {
        response: {
          object: 'config-file',
          writes: true,
          name: fault.file,
          text,
          reason: null,
          masked: 0,
          version,
        },
      },
      async handle({ key }) {
        requireOwner(key);
        const none = { text: null, masked: 0, version: '' };
        if (!writes || configFile === undefined)
          return { object: 'config-file' as const, writes: false, name: '', reason: off, ...none };
        const { name, text: shown = null, reason = null, masked, version: now } = await configFile.read();
        return { object: 'config-file' as const, writes, name, text: shown, reason, masked, version: now };
      },
    }),
    defineRoute({
      id: 'config_file.check',
      method: 'POST',
      path: `${path}/check`,
      summary: 'The faults of a text for the configuration file, each at its place; runs no code of plugins',
      scope: 'organisation_settings.update',
      // Changes nothing.
      audit: null,
      body: Draft,
      reply: Checked,
      examples: {
        request: { text, version },
        response: { object: 'config-check', valid: false, faults: [fault] },
      },
      async handle({ body, key }) {
        const faults = [...(await editable(key).check(body))];
        const valid = faults.every(({ severity }) => severity !== 'error');
        return { object: 'config-check' as const, valid, faults };
      },
    }),
    defineRoute({
      id: 'config_file.update',
      method: 'PUT',
      path,
      summary: 'Replaces the configuration file by a text without faults, and reloads it; for owners',
      scope: 'organisation_settings.update',
      audit: 'update',
      isBodySecret: true,
      body: Draft,
      reply: Written,
      examples: {
        request: { text, version },
        response: { object: 'config-file', outcome: 'swapped', faults: [], restart_needed: null, version },
      },
      async handle({ body, key, write }) {
        const file = editable(key);
        const { name } = await file.read();
        const written = await file.write(body, () =>
          write(() => Promise.resolve({ id: name, result: undefined })),
        );
        const { outcome, faults, version: now, restartNeeded = null } = written;
        return {
          object: 'config-file' as const,
          ...{ outcome, faults: [...faults], version: now, restart_needed: restartNeeded },
        };
      },
    }),
  ];
}

function requireOwner({ kind, name }: RouteInput<unknown, unknown, unknown>['key']): void {
  if (kind === 'owner') return;
  throw new GatewayError(
    'scope_missing',
    `The key "${name}" is no owner's key, and the configuration file is for owners.`,
  );
}
