import { hasScope } from '../../../core/access/scopes.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import type { DefaultGuardrails } from '../../../core/ports/organisation-settings.ts';
import type { ResourcesReader, ResourcesWriter } from '../../../core/ports/resources.ts';
import { guardrailKeys } from '../../../core/organisation/route-config.ts';
import { configUses } from '../configs/uses.ts';
import { places, storedRecords } from '../shared/records.ts';
import { isReading, type RecordAction, RecordResource } from '../shared/record-resource.ts';
import { ManagedBy, Name, orNull, plainObject, refusedBody, strict } from '../shared/fields.ts';
import {
  Actions,
  actionsOf,
  Check,
  checkIssues,
  checksOf,
  guardrailFields as fields,
  withoutSecrets,
  withSecrets,
} from '../../../core/organisation/guardrails.ts';
import { type Mistake, writeJson } from '../../../core/base/json.ts';
import type { SecretBox } from '../../../core/ports/secret-managers.ts';
import { headersOf } from '../../../core/organisation/mcp-address.ts';
import { type PlainSecrets, sealedSecrets } from '../shared/sealed-secrets.ts';
import type { GuardrailData } from '../../../core/ports/record-kinds.ts';
import { listReplies } from '../shared/replies.ts';

/** Body that creates a guardrail. */
const CreateGuardrail = Type.Object(
  {
    ...fields,
    workspace_id: Type.Optional(Name('Id or slug. Default: the workspace of the key.')),
    organisation_id: Type.Optional(
      Name('Without `workspace_id`, for keys of organisations: a guardrail of the whole organisation.'),
    ),
  },
  strict,
);

/** Body that changes a guardrail; absent members stay unchanged, and checks are replaced as a whole. */
const UpdateGuardrail = Type.Object(
  {
    name: Type.Optional(fields.name),
    checks: Type.Optional(fields.checks),
    actions: Type.Optional(fields.actions),
    workspace_id: Type.Optional(Name('Of the guardrail, where its slug does not tell.')),
  },
  strict,
);

/** The body with a description of each check's parameters; required ones are marked. */
function withParameterDescriptions<T extends typeof CreateGuardrail | typeof UpdateGuardrail>(
  body: T,
  guards: Scope['guards'],
): T {
  const told = guards.ids.flatMap((id) => {
    const schema = guards.definition(id)?.schema;
    if (schema === undefined) return [];
    const { properties, required = [] } = schema as { properties?: object; required?: readonly string[] };
    const names = Object.keys(properties ?? {});
    const shown = names.map((name) => `\`${name}\`${required.includes(name) ? ' (required)' : ''}`);
    return [`\`${id}\`: ${shown.length === 0 ? 'none' : shown.join(', ')}`];
  });
  const { parameters } = Check.properties;
  const described = { ...parameters, description: `Parameters of the check. ${told.join('; ')}.` };
  const items = { ...Check, properties: { ...Check.properties, parameters: described } };
  const checks = { ...body.properties.checks, items };
  return { ...body, properties: { ...body.properties, checks } };
}

/** The checks in stored form, with plain credentials. Throws `invalid_request` with every unknown or invalid check. */
function readChecks(
  given: readonly Static<typeof Check>[],
  guards: Scope['guards'],
): GuardrailData['checks'] {
  // This validation leaves masked values out; `sealChecks` resolves or refuses them.
  const told = given.map((check) => {
    const parameters = { ...check.parameters };
    if (holdsMask(parameters['credentials'])) delete parameters['credentials'];
    if (holdsMask(parameters['headers'])) delete parameters['headers'];
    return { ...check, parameters };
  });
  const mistakes = checkIssues(told, guards);
  if (mistakes.length > 0) throw refusedBody(mistakes);
  return checksOf(given, (parameters, index) => plainObject(parameters, `/checks/${index}/parameters`));
}

/** A guardrail's checks, with their secrets sealed. `before` is the guardrail before the change. */
function sealChecks(
  given: GuardrailData['checks'],
  id: string,
  box: SecretBox,
  before?: StoredRecord<'guardrail'>,
): { readonly checks: GuardrailData['checks']; readonly secrets: PlainSecrets } {
  const mistakes: Mistake[] = [];
  const earlier = before === undefined ? [] : wholeChecks(before, box);
  const whole = given.map((check, index) => {
    const own = [earlier[index], ...earlier]
      .filter((one) => one?.id === check.id)
      .flatMap((one) => one ?? []);
    const place = `/checks/${index}/parameters`;
    const credentials = keptCredentials(check, own, mistakes, place);
    const headers = keptHeaders(check, own, mistakes, place);
    return { ...check, parameters: { ...check.parameters, ...credentials, ...headers } };
  });
  if (mistakes.length > 0) throw refusedBody(mistakes);
  const { checks, plain } = withoutSecrets(whole);
  return { checks, secrets: sealedSecrets.seal(box, id, plain) };
}

type StoredCheck = GuardrailData['checks'][number];
type Parameters = StoredCheck['parameters'];

/**
 * The stored credentials in place of their mask. A mask stands for them at the same address alone: a secret never moves
 * to another one.
 */
function keptCredentials(
  { parameters }: StoredCheck,
  earlier: readonly StoredCheck[],
  mistakes: Mistake[],
  place: string,
): Parameters {
  const { credentials } = parameters;
  if (credentials === undefined) return {};
  const same = earlier.find(
    (one) =>
      one.parameters['baseURL'] === parameters['baseURL'] &&
      writeJson(masked(one.parameters['credentials'])) === writeJson(credentials),
  );
  if (same?.parameters['credentials'] !== undefined) return { credentials: same.parameters['credentials'] };
  if (holdsMask(credentials))
    mistakes.push({
      path: `${place}/credentials`,
      message:
        'holds what answers show of other secrets; give all credentials anew, or leave all of them, and the address, as they are shown',
    });
  return {};
}

/** The headers of webhooks: those that are masked, or not given, stay as they are at the same origin. */
function keptHeaders(
  { parameters }: StoredCheck,
  earlier: readonly StoredCheck[],
  mistakes: Mistake[],
  place: string,
): Parameters {
  const origin = originOf(parameters);
  if (origin === undefined) return {};
  const same = earlier.find((one) => originOf(one.parameters) === origin);
  const known = given(same?.parameters['headers']);
  if (parameters['headers'] !== undefined) {
    const headers = given(parameters['headers']);
    return { headers: sealedSecrets.unmaskedHeaders(headers, known, mistakes, `${place}/headers`) };
  }
  if (Object.keys(known).length > 0) return { headers: known };
  const [first] = earlier;
  if (same === undefined && first !== undefined && Object.keys(given(first.parameters['headers'])).length > 0)
    mistakes.push({
      path: `${place}/headers`,
      message:
        'is needed: the headers that are stored were given for another address; give them anew, or {} for none',
    });
  return {};
}

/** Headers as an object, or as its JSON. */
function given(headers: unknown): Readonly<Record<string, string>> {
  return headersOf(
    typeof headers === 'string' ? headers : headers === undefined ? undefined : writeJson(headers),
  );
}

/** Where a check sends its headers; undefined for one that sends none. */
function originOf(parameters: Parameters): string | undefined {
  const url = parameters['webhookURL'] ?? parameters['logURL'];
  return typeof url === 'string' && URL.canParse(url) ? new URL(url).origin : undefined;
}

function holdsMask(credentials: unknown): boolean {
  return credentials !== undefined && writeJson(credentials).includes(sealedSecrets.mark);
}

/** The checks with their secrets in plain. */
function wholeChecks(record: StoredRecord<'guardrail'>, box: SecretBox): GuardrailData['checks'] {
  const plain = sealedSecrets.open(box, record);
  return record.data.checks.map((check, index) => ({
    ...check,
    parameters: withSecrets(check.parameters, index, (field) => plain[field]),
  }));
}

/** Credentials, masked for answers. A secret reference is shown: its name is not a secret. */
function masked(credentials: unknown, isOfFile = false): unknown {
  if (typeof credentials === 'string') return sealedSecrets.mask(isOfFile ? '' : credentials);
  if (typeof credentials !== 'object' || credentials === null) return credentials;
  if ('secret_reference' in credentials) return credentials;
  return Object.fromEntries(
    Object.entries(credentials).map(([name, value]) => [name, masked(value, isOfFile)]),
  );
}

/** A guardrail in a list. */
const GuardrailReply = Type.Object({
  id: Type.String(),
  name: Type.String(),
  slug: Type.String(),
  organisation_id: Type.String(),
  workspace_id: orNull(Type.String({ description: 'Null for a guardrail of the whole organisation.' })),
  status: Type.Union([Type.Literal('active'), Type.Literal('archived')]),
  created_at: Type.String(),
  last_updated_at: Type.String(),
  owner_id: Type.String(),
  updated_by: Type.String(),
  managed_by: ManagedBy,
  object: Type.Literal('guardrail'),
});

/** One guardrail with its checks. */
const WholeGuardrail = Type.Object({
  ...GuardrailReply.properties,
  checks: Type.Array(Check),
  actions: Actions,
});

/** Converts a stored guardrail to its shape in lists. */
function showGuardrail(record: StoredRecord<'guardrail'>): Static<typeof GuardrailReply> {
  return {
    id: record.id,
    name: record.name,
    slug: record.slug,
    status: record.status,
    organisation_id: record.organisationId,
    workspace_id: record.workspaceId ?? null,
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
    owner_id: record.createdBy,
    updated_by: record.updatedBy,
    managed_by: record.managedBy ?? 'api',
    object: 'guardrail',
  };
}

/** The same with its checks. */
function showWholeGuardrail(
  record: StoredRecord<'guardrail'>,
  box: SecretBox,
): Static<typeof WholeGuardrail> {
  const { actions } = record.data;
  return {
    ...showGuardrail(record),
    checks: wholeChecks(record, box).map(({ id, name, isEnabled, parameters, onError, timeoutMs }) => ({
      id,
      name,
      parameters: shownParameters(parameters, record.managedBy === 'file'),
      is_enabled: isEnabled,
      ...(onError !== undefined && { on_error: onError }),
      ...(timeoutMs !== undefined && { timeout_ms: timeoutMs }),
    })),
    actions: { ...actions },
  };
}

function shownParameters(parameters: Parameters, isOfFile: boolean): Record<string, unknown> {
  const { credentials, headers } = parameters;
  return {
    ...parameters,
    ...(credentials !== undefined && { credentials: masked(credentials, isOfFile) }),
    ...(headers !== undefined && { headers: masked(given(headers), isOfFile) }),
  };
}

const noun = 'guardrail';
const workspaceQuery = { workspace_id: Type.Optional(Name('Id or slug of the workspace of the guardrail.')) };
const Changed = Type.Object({
  id: Type.String(),
  slug: Type.String(),
  version_id: Type.String(),
  object: Type.Literal('guardrail'),
});

/** The routes of stored guardrails. */
export function guardrailRoutes(scope: Scope): readonly RouteDefinition[] {
  const { guards, secrets: box } = scope;
  const guardrails = new RecordResource(scope, {
    kind: 'guardrail',
    noun,
    operations: 'guardrails',
    path: '/guardrails',
    parameter: 'guardrailId',
    // Either scope admits a key; guardrails of the organisation require the second.
    scopes: (action) => [`guardrails.${action}`, `organisation_guardrails.${action}`],
    feature: 'guardrails',
    allow(key, record, action) {
      if (isReading(action)) return;
      places.requireOwn(key, record, noun);
      requireRight(key, action, record.workspaceId);
    },
  });
  return [
    guardrails.create({
      summary: 'Creates a guardrail: checks and the reaction to their verdicts',
      body: withParameterDescriptions(CreateGuardrail, guards),
      reply: Changed,
      prepare: ({ body }) => ({
        checks: readChecks(body.checks, guards),
        actions: actionsOf(body.actions),
      }),
      async make(writer, { key, body, id, prepared: { checks: given, actions } }) {
        const workspaceId = (await places.ofNew(writer, key, body))?.id;
        requireRight(key, 'create', workspaceId);
        const { checks, secrets } = sealChecks(given, id, box);
        return {
          workspaceId,
          slug: storedRecords.newSlug('guard_', body.name),
          name: body.name,
          data: { checks, actions },
          secrets,
        };
      },
      show: changed,
    }),
    guardrails.list({
      summary: 'Guardrails that the key may see, oldest first',
      query: {
        ...workspaceQuery,
        organisation_id: Type.Optional(Name('Without `workspace_id`: only those of the whole organisation.')),
      },
      entry: GuardrailReply,
      prepare: ({ key, query }) => places.requireOrganisation(key, query.organisation_id),
      async rows(reader, { key, query }, page) {
        const { workspace_id: named, organisation_id: organisation } = query;
        const ofOrganisation = named === undefined && organisation !== undefined;
        const { organisationId, workspaceId } = await places.ofList(reader, key, named);
        const filter = ofOrganisation
          ? ({ ofOrganisation } as const)
          : { ...(workspaceId !== undefined && { workspaceId }) };
        return reader.records.list('guardrail', organisationId, { status: 'active', ...filter }, page);
      },
      show: showGuardrail,
    }),
    guardrails.get({
      summary: 'One guardrail, by its id or slug, with its checks',
      query: Type.Object(workspaceQuery, strict),
      reply: WholeGuardrail,
      show: (record) => showWholeGuardrail(record, box),
    }),
    guardrails.update({
      summary: 'Updates a guardrail; omitted fields stay unchanged, and the previous version is kept',
      body: withParameterDescriptions(UpdateGuardrail, guards),
      reply: Changed,
      prepare: ({ body }) => ({
        checks: body.checks && readChecks(body.checks, guards),
        actions: body.actions && actionsOf(body.actions),
      }),
      change(before, _writer, { body, prepared: { checks: given, actions } }) {
        const { name, data, id } = before;
        const sealed = given && sealChecks(given, id, box, before);
        return {
          name: body.name ?? name,
          data: { checks: sealed?.checks ?? data.checks, actions: actions ?? data.actions },
          ...(sealed !== undefined && { secrets: sealed.secrets }),
        };
      },
      show: changed,
    }),
    guardrails.remove({
      summary: 'Deletes a guardrail with its versions',
      query: Type.Object(workspaceQuery, strict),
      requireUnused,
    }),
  ];
}

/** Throws `resource_conflict` when defaults or configs name the guardrail: without it their requests would fail. */
async function requireUnused(reader: Reader, record: StoredRecord<'guardrail'>): Promise<void> {
  await storedRecords.requireNobody(
    `The guardrail "${record.slug}"`,
    usersOf(reader, record),
    'Take it out of there first.',
  );
}

type Reader = Pick<ResourcesReader, 'records' | 'settings' | 'workspaces'>;

async function* usersOf(
  reader: Reader,
  { organisationId, workspaceId, id, slug }: StoredRecord<'guardrail'>,
): AsyncGenerator<string> {
  const isMeant = (name: unknown): boolean => name === id || name === slug;
  const { defaults } = await reader.settings.ofOrganisation(organisationId);
  if (namedIn(defaults.guardrails, isMeant)) yield 'the organisation';
  for await (const { id: other, name, defaults } of storedRecords.eachOf((page) =>
    reader.workspaces.list(organisationId, {}, page),
  ))
    if (workspaceId === undefined || workspaceId === other)
      if (namedIn(defaults.guardrails, isMeant)) yield `the workspace "${name}"`;
  const alike = { ...(workspaceId !== undefined && { workspaceId }), status: 'active' as const };
  for await (const config of storedRecords.each(reader, 'config', organisationId, alike))
    if (configUses.someNode(config.data.config, (node) => listsOf(node).some((list) => list.some(isMeant))))
      yield `the config "${config.slug}"`;
}

function listsOf(node: Readonly<Record<string, unknown>>): readonly (readonly unknown[])[] {
  return guardrailKeys.map(([key]) => node[key]).filter((list) => Array.isArray(list));
}

function namedIn(names: DefaultGuardrails | undefined, isMeant: (name: unknown) => boolean): boolean {
  return names !== undefined && [...names.input, ...names.output].some(isMeant);
}

/** Stores the guardrail's current content as its newest version. The answer holds the id of that version. */
async function changed(
  record: StoredRecord<'guardrail'>,
  writer: Pick<ResourcesWriter, 'records'>,
): Promise<Static<typeof Changed>> {
  const { id, slug } = record;
  const version = await storedRecords.keepVersion(writer, record);
  return { id, slug, version_id: version.id, object: 'guardrail' };
}

/** Throws `scope_missing` when the key may not do this with guardrails of the organisation. */
function requireRight(key: KeyRecord, action: RecordAction, workspaceId: string | undefined): void {
  const scope = `organisation_guardrails.${action}`;
  if (workspaceId !== undefined || hasScope(key, scope)) return;
  throw new GatewayError(
    'scope_missing',
    `The key "${key.name}" lacks the scope "${scope}", which guardrails of the whole organisation ask for. Name a workspace (workspace_id), or use a key that has it.`,
  );
}

const Phase = Type.Union([Type.Literal('input'), Type.Literal('output')]);

const CheckReply = Type.Object({
  id: Type.String({ description: 'As guardrails name it: `default.contains`.' }),
  description: Type.String(),
  phases: Type.Array(Phase, { description: '`input`: it judges requests. `output`: it judges answers.' }),
  changes: Type.Boolean({ description: 'Whether it may change the texts that it judges.' }),
  timeout_ms: Type.Integer({
    description: 'Longest time of one judgement, unless the guardrail says another.',
  }),
  parameters: Type.Record(Type.String(), Type.Unknown(), { description: 'JSON schema of its parameters.' }),
});

const usualTimeoutMs = 5000;

/** `GET /guardrail-checks`: the checks that guardrails of this gateway can use, those of plugins too. */
export function guardrailChecksRoute({ guards }: Pick<Scope, 'guards'>): RouteDefinition {
  // The same for all callers until the configuration changes, and then there is another generation.
  const data = guards.ids.flatMap((id): Static<typeof CheckReply>[] => {
    const check = guards.definition(id);
    // Other names of a check are understood, and not offered.
    if (check?.id !== id) return [];
    const { description, phases, changes, timeoutMs, schema } = check;
    return [
      {
        ...{ id, description, phases: [...phases], changes: changes === true },
        timeout_ms: timeoutMs ?? usualTimeoutMs,
        parameters: JSON.parse(JSON.stringify(schema)) as Record<string, unknown>,
      },
    ];
  });
  return defineRoute({
    id: 'guardrail_checks.list',
    method: 'GET',
    path: '/guardrail-checks',
    summary: 'The checks that guardrails can use, with the schema of their parameters',
    scope: [
      ...['guardrails.list', 'guardrails.read'],
      ...['organisation_guardrails.list', 'organisation_guardrails.read'],
    ],
    feature: 'guardrails',
    // Reads only.
    audit: null,
    reply: Type.Object({ ...listReplies.of, data: Type.Array(CheckReply) }),
    handle: () => ({ object: 'list' as const, total: data.length, data }),
  });
}
