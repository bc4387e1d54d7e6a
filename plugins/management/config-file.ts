import type { RouteDefinition, RouteInput } from '../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, type Static, Type } from '../../core/pipeline/plugin.ts';
import type {
  CanaryFigures,
  CanaryState,
  ConfigCanaries,
  ConfigFileEditor,
} from '../../core/ports/config-file.ts';
import { canaryRules } from '../../core/organisation/canary-rules.ts';
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
  writes: Type.Boolean({
    description: 'Whether `config_writes` lets owners write the text; they read it in any case.',
  }),
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

const number = Type.Number();
const Rules = Type.Object({
  ...{ share: number, duration_s: number, min_requests: number },
  ...{ max_error_rise: number, max_refusal_rise: number, max_latency_rise: number },
});
const Figures = Type.Object({
  requests: Type.Integer(),
  errors: Type.Integer({ description: 'Answers with 5xx, and those that broke off.' }),
  refusals: Type.Integer({ description: 'Answers with 4xx.' }),
  median_ms: Type.Union([number, Type.Null()], { description: 'Median latency, within a tenth.' }),
});
const Canary = Type.Object({
  id: Type.String(),
  phase: Type.Union(
    [Type.Literal('running'), Type.Literal('completed'), Type.Literal('reverted'), Type.Literal('aborted')],
    { description: '`completed`: it is the configuration now. `reverted`: something became worse.' },
  ),
  reason: Type.String({ description: 'Why it has ended; empty while it runs.' }),
  share: Type.Number({ description: 'Percent of the requests that meet it now.' }),
  rules: Rules,
  started_by: Type.String({ description: 'Name of the key.' }),
  started_at: Type.String(),
  ends_at: Type.String({ description: 'When it is to end, or has ended.' }),
  before: Figures,
  after: Figures,
});
const ShownCanary = Type.Object({
  object: Type.Literal('config-canary'),
  writes: Type.Boolean({ description: 'Whether `config_writes` lets owners start one.' }),
  canary: Type.Union([Canary, Type.Null()], { description: 'Null: none since this gateway started.' }),
});
const CanaryDraft = Type.Object(
  { ...Draft.properties, ...Type.Partial(Type.Object(canaryRules)).properties },
  strict,
);

const figures = { requests: 1203, errors: 4, refusals: 0, median_ms: 412.3 };
const exampleCanary: Static<typeof Canary> = {
  ...{
    id: '0b54f2f0-6f4e-4f64-9c8c-0a6f1f7c6a53',
    phase: 'running',
    reason: '',
    share: 2,
    started_by: 'owner',
  },
  rules: {
    ...{ share: 10, duration_s: 300, min_requests: 20 },
    ...{ max_error_rise: 1, max_refusal_rise: 1, max_latency_rise: 50 },
  },
  ...{ started_at: '2026-11-28T10:00:00.000Z', ends_at: '2026-11-28T10:05:00.000Z' },
  before: figures,
  after: { ...figures, requests: 17, errors: 0 },
};

const version = '5f0c2a9d4b7e1836a1d2c3b4e5f60718';
const text =
  'version: 1\npipelines:\n  - name: gateway\n    match: { path: /** }\n    plugins: [auth, provider]\n';
const fault: Static<typeof Fault> = {
  file: 'gateway.config.yaml',
  ...{ line: 3, column: 5, severity: 'error' },
  message: 'unknown key "nam"; did you mean "name"?',
};

type Key = RouteInput<unknown, unknown, unknown>['key'];

const off = 'Set the option of the plugin: management: { config_writes: true }.';
const noFile = 'This gateway is not started from a configuration file.';

/**
 * The routes of the configuration file, for owners: its text is read, and checked and written where the operator allows it
 * (`writes`).
 */
export function configFileRoutes({ configFile }: Scope, writes: boolean): readonly RouteDefinition[] {
  const canariesOf = (key: Key): ConfigCanaries => {
    const { canaries } = editable(key);
    if (canaries !== undefined) return canaries;
    throw new GatewayError('not_supported', 'This gateway tries no configurations: write the file instead.');
  };
  const editable = (key: Key): ConfigFileEditor => {
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
        if (configFile === undefined) {
          const none = { name: '', text: null, masked: 0, version: '' };
          return { object: 'config-file' as const, writes: false, reason: noFile, ...none };
        }
        const { name, text: shown = null, reason = null, masked, version: now } = await configFile.read();
        return { object: 'config-file' as const, writes, name, text: shown, reason, masked, version: now };
      },
    }),
    defineRoute({
      id: 'config_file.schema',
      method: 'GET',
      path: `${path}/schema`,
      summary:
        'The JSON Schema of the configuration file, with the options of the plugins that come with the gateway; for owners',
      scope: 'organisation_settings.update',
      // Reads only.
      audit: null,
      reply: Type.Record(Type.String(), Type.Unknown()),
      handle({ key }) {
        requireOwner(key);
        if (configFile === undefined) throw new GatewayError('not_supported', noFile);
        return Promise.resolve({ ...configFile.schema() });
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
    defineRoute({
      id: 'config_file.canary.get',
      method: 'GET',
      path: `${path}/canary`,
      summary: 'The canary of the configuration that runs, or the last one; for owners',
      scope: 'organisation_settings.update',
      // Reads only.
      audit: null,
      reply: ShownCanary,
      examples: { response: { object: 'config-canary', writes: true, canary: exampleCanary } },
      handle({ key }) {
        requireOwner(key);
        const state = writes ? configFile?.canaries?.state() : undefined;
        return {
          object: 'config-canary' as const,
          writes,
          canary: state === undefined ? null : shownCanary(state),
        };
      },
    }),
    defineRoute({
      id: 'config_file.canary.start',
      method: 'POST',
      path: `${path}/canary`,
      summary:
        'Lets a text without faults serve a share of the requests; it becomes the file, or is taken back by itself when something becomes worse; for owners',
      scope: 'organisation_settings.update',
      audit: 'start',
      isBodySecret: true,
      body: CanaryDraft,
      reply: ShownCanary,
      examples: {
        request: { text, version, share: 10, duration_s: 300 },
        response: { object: 'config-canary', writes: true, canary: exampleCanary },
      },
      async handle({ body, key }) {
        const { text: draft, version: from, ...rules } = body;
        const state = await canariesOf(key).start({ text: draft, version: from }, rules, key);
        return { object: 'config-canary' as const, writes, canary: shownCanary(state) };
      },
    }),
    defineRoute({
      id: 'config_file.canary.abort',
      method: 'DELETE',
      path: `${path}/canary`,
      summary: 'Ends the canary of the configuration that runs; what served before serves on; for owners',
      scope: 'organisation_settings.update',
      audit: 'abort',
      reply: ShownCanary,
      examples: { response: { object: 'config-canary', writes: true, canary: exampleCanary } },
      async handle({ key }) {
        const state = await canariesOf(key).abort(key);
        return { object: 'config-canary' as const, writes, canary: shownCanary(state) };
      },
    }),
  ];
}

function shownCanary(state: CanaryState): Static<typeof Canary> {
  const side = ({ requests, errors, refusals, medianMs }: CanaryFigures): Static<typeof Figures> => ({
    ...{ requests, errors, refusals },
    median_ms: medianMs === undefined ? null : Math.round(medianMs * 10) / 10,
  });
  const { id, phase, reason, startedAt, endsAt, share, rules, startedBy, before, after } = state;
  return {
    ...{ id, phase, reason, share, rules: { ...rules }, started_by: startedBy },
    started_at: new Date(startedAt).toISOString(),
    ends_at: new Date(endsAt).toISOString(),
    ...{ before: side(before), after: side(after) },
  };
}

function requireOwner({ kind, name }: Key): void {
  if (kind === 'owner') return;
  throw new GatewayError(
    'scope_missing',
    `The key "${name}" is no owner's key, and the configuration file is for owners.`,
  );
}
