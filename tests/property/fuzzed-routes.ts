/** Requests made of the document that the administration API serves of itself, right or wrong, and what their answers must be. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { OpenApiDocument } from '../../core/http/openapi/document-writer.ts';
import { createReferencePages } from '../../core/http/openapi/document.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { Resources } from '../../core/ports/resources.ts';
import { openTestResources, startAdministration } from '../kit/administration-kit.ts';
import { send } from '../kit/http-kit.ts';
import { checkerOf, contributedPipelines, operationsIn } from '../kit/openapi-kit.ts';
import { testKey } from '../kit/plugin-kit.ts';
import { modelOf, plantedSecret, recordKindOf, recordKinds, versionIdOf } from '../kit/planted-records.ts';
import type { Closing } from '../kit/postgres-kit.ts';
import { brokenValues } from './broken-values.ts';
import {
  directoryOf,
  personOf,
  plantPlaces,
  plantRecord,
  plantTarget,
  recordOf,
  type Place,
} from './planted-places.ts';
import { valuesOf, type ValueSource } from './schema-arbitrary.ts';

type Served = ReturnType<typeof operationsIn>[number];

/** One request of one of the callers. */
interface Fuzzed {
  readonly path: string;
  readonly body: unknown;
  readonly caller: number;
  readonly ifMatch: string | undefined;
}

/** An operation of the document, with requests for it. */
interface FuzzedOperation {
  /** `GET /configs/{slug}`. */
  readonly name: string;
  /** Plants what its path names; anew for each call. */
  requests(): Promise<fc.Arbitrary<Fuzzed>>;
  /** Sends one, and checks its answer against the document. Resolves with its status. */
  check(request: Fuzzed): Promise<number>;
}

/** Every operation of an administration on a store of its own, which ends with the test. */
export async function openFuzzedRoutes(closing: Closing): Promise<readonly FuzzedOperation[]> {
  const resources = await openTestResources(closing);
  const places = await plantPlaces(resources);
  const compiled = await contributedPipelines();
  const pages = createReferencePages({ base_path: '/v1', header_prefix: 'x-service' }, () => ({ compiled }));
  const { gateway, call } = await startAdministration(closing, resources, {
    directory: directoryOf(places),
    operations(path, _request, response) {
      if (path !== '/openapi.json') return false;
      response.end(pages.document().body);
      return true;
    },
  });
  const document = (await send(gateway.url, { path: '/openapi.json' })).json() as OpenApiDocument;
  const operations = operationsIn(document).filter(({ operation }) => 'x-required-scope' in operation);
  assert.ok(operations.length > 20);
  const [place] = places;
  assert.ok(place);
  const member = { organisationId: place.organisation, workspaceId: place.workspace };
  const callers: readonly KeyRecord[] = [
    testKey({ id: 'owner', kind: 'owner', ...member }),
    testKey({ id: 'organisation', kind: 'organisation-service', ...member }),
    testKey({ id: 'workspace', kind: 'workspace-service', ...member }),
    testKey({ id: 'user', kind: 'workspace-user', userId: personOf(place, 'member'), ...member }),
  ];
  return operations.map((served) => {
    const { method, operation } = served;
    return {
      name: `${method.toUpperCase()} ${served.path}`,
      requests: async () =>
        requestsOf(served, { document, known: await plantKnown(resources, place, served) }),
      async check(request) {
        const { path, body, caller, ifMatch } = request;
        const headers = {
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...(ifMatch !== undefined && { 'if-match': ifMatch }),
        };
        const answer = await call(callers[caller], { method: method.toUpperCase(), path, body, headers });
        const told = `${method} ${JSON.stringify(request).slice(0, 2000)}: ${answer.status} ${answer.text.slice(0, 500)}`;
        assert.ok(answer.status < 500, `${told}\n${JSON.stringify(gateway.lines.slice(-2))}`);
        const { content } = operation['responses'][String(answer.status)] ?? {};
        const type = String(answer.headers['content-type']).split(';', 1)[0] ?? '';
        // Files and streams are described in words.
        if (answer.status === 200 && type !== 'application/json') {
          assert.ok(type in content, told);
          return answer.status;
        }
        const check = replyChecker(document, operation, answer.status);
        assert.ok(check, `the document knows no such status: ${told}`);
        assert.equal(answer.headers['content-type'], 'application/json', told);
        assert.deepEqual(check(answer.json()), [], told);
        assert.ok(!answer.text.includes(plantedSecret), `tells a secret: ${told}`);
        return answer.status;
      },
    };
  });
}

/** Something new for every parameter of the path, and what bodies can name. */
async function plantKnown(
  resources: Resources,
  place: Place,
  { path, operation }: Served,
): Promise<ValueSource['known']> {
  const standing = recordKinds.map((kind) => [`${kind}_id`, [recordOf(place, kind)]] as const);
  const known: Record<string, readonly string[]> = {
    workspace_id: [place.workspace, `ws-${place.marker}`],
    user_id: [personOf(place, 'member')],
    ...Object.fromEntries(standing),
    config_id: ['main', recordOf(place, 'config')],
    scopes: ['logs.view', 'completions.write'],
    columns: ['cost', 'cost,last_seen'],
    id: [place.workspace, personOf(place, 'manager')],
    status: ['active', 'active,archived'],
  };
  const kind = recordKindOf(String(operation['operationId']));
  let record: string | undefined;
  const isOfWorkspace = path.includes('{workspaceId}');
  for (const [, parameter = ''] of path.matchAll(/\{(\w+)\}/g)) {
    const workspace = isOfWorkspace ? (known['workspaceId']?.[0] ?? place.workspace) : '';
    if (kind !== undefined && record === undefined) {
      record = (await plantRecord(resources, place, { kind, ofOrganisation: false })).id;
      Object.assign(known, {
        [parameter]: [record],
        versionId: [versionIdOf(record)],
        slugs: [modelOf(record)],
      });
      continue;
    }
    if (parameter in known) continue;
    const planted = await plantTarget(resources, place, { parameter, keyType: 'workspace-user', workspace });
    if (planted !== undefined) known[parameter] = [planted.id];
  }
  return known;
}

const rawBodies = fc.constantFrom<string | Buffer>(
  ...['', '{', 'null', '[]', '{"name":1e999}', '{"a":1,"a":2}', '\ufeff{}', Buffer.from([0xff, 0xfe])],
);
const strayQueries = fc.constantFrom(
  'unknown=1',
  '__proto__=1',
  'page_size=1&page_size=2',
  '%zz',
  '%00=%00',
  '=&=&',
);

interface Parts {
  readonly params: unknown;
  readonly query: unknown;
  readonly stray: string;
  readonly body: unknown;
}

/** Requests that are right, or wrong in one of their parts. */
function requestsOf({ path, operation }: Served, source: ValueSource): fc.Arbitrary<Fuzzed> {
  const named = (place: string): readonly Record<string, any>[] =>
    operation['parameters'].filter((one: Record<string, any>) => one['in'] === place);
  const params = fc.record(
    Object.fromEntries(named('path').map(({ name, schema }) => [name, valuesOf(schema, source, name)])),
  );
  const query = someOf(named('query'), source);
  const media = operation['requestBody']?.content['application/json'];
  const body: fc.Arbitrary<unknown> =
    media === undefined
      ? fc.constant(undefined)
      : fc.oneof(
          { arbitrary: valuesOf(media.schema, source), weight: 3 },
          fc.constant(withKnown(media.example, source)),
        );
  const right = { params, query, stray: fc.constant(''), body };
  const wrong: fc.Arbitrary<Parts>[] = [fc.record({ ...right, stray: strayQueries })];
  if (named('path').length > 0) wrong.push(fc.record({ ...right, params: brokenValues(params) }));
  if (named('query').length > 0) wrong.push(fc.record({ ...right, query: brokenValues(query) }));
  if (media !== undefined)
    wrong.push(
      fc.record({ ...right, body: brokenValues(body).map((value) => JSON.stringify(value)) }),
      fc.record({ ...right, body: rawBodies }),
    );
  const parts = fc.oneof({ arbitrary: fc.record(right), weight: wrong.length }, ...wrong);
  const caller = fc.oneof({ arbitrary: fc.constant(0), weight: 4 }, fc.nat({ max: 3 }));
  const ifMatch = fc.option(fc.constantFrom('"1"', '*', 'W/"2"', '"', 'x'), { nil: undefined, freq: 5 });
  return fc.tuple(parts, caller, ifMatch).map(([sent, by, version]) => ({
    path: addressOf(path, sent),
    body:
      typeof sent.body === 'object' && !Buffer.isBuffer(sent.body) ? JSON.stringify(sent.body) : sent.body,
    caller: by,
    ifMatch: version,
  }));
}

/** An example in which names are those of what there is. */
function withKnown(value: unknown, source: ValueSource): unknown {
  if (Array.isArray(value)) return value.map((item) => withKnown(item, source));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([name, member]) => {
    const [known] = typeof member === 'string' ? (source.known[name] ?? []) : [];
    return [name, known ?? withKnown(member, source)] as const;
  });
  return Object.fromEntries(entries);
}

/** Those parameters that must be there, and up to two others. */
function someOf(
  parameters: readonly Record<string, any>[],
  source: ValueSource,
): fc.Arbitrary<Record<string, unknown>> {
  const all = Object.fromEntries(
    parameters.map(({ name, schema }) => [name, valuesOf(schema, source, name)]),
  );
  const required = parameters.filter((one) => one['required'] === true).map(({ name }) => String(name));
  const others = Object.keys(all).filter((name) => !required.includes(name));
  return fc
    .subarray(others, { maxLength: Math.min(2, others.length) })
    .chain((chosen) =>
      fc.record(
        Object.fromEntries(
          [...required, ...chosen].map((name) => [name, all[name] as fc.Arbitrary<unknown>]),
        ),
      ),
    );
}

function addressOf(path: string, { params, query, stray }: Parts): string {
  const pairs = Object.entries(query ?? {})
    .slice(0, 20)
    .map(([name, value]) => `${escape(name)}=${escape(textOf(value))}`);
  const search = [...pairs, ...(stray === '' ? [] : [stray])].join('&');
  const given = params as Record<string, unknown> | null;
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => segmentOf(given?.[name]));
  return search === '' ? filled : `${filled}?${search}`;
}

function textOf(value: unknown): string {
  return (typeof value === 'string' ? value : (JSON.stringify(value) ?? '')).slice(0, 400);
}

/**
 * Something that stays one segment of a path: `.` and `..`, encoded too and before a separator, are refused before a
 * route is looked for.
 */
function segmentOf(value: unknown): string {
  const text = textOf(value).slice(0, 1000).replaceAll('..', 'x');
  return text === '' || /(?:^|[/\\])\.(?:[/\\;:]|$)/.test(text) ? 'x' : escape(text);
}

/** Half a surrogate pair has no encoding; its bytes are sent all the same. */
function escape(text: string): string {
  const wellFormed = Buffer.from(text).toString();
  return encodeURIComponent(wellFormed) + (wellFormed === text ? '' : '%ED%A0%80');
}

/** Says what is wrong with an answer of this status; undefined when the document does not know the status. */
function replyChecker(document: OpenApiDocument, operation: Record<string, any>, status: number) {
  const described = operation['responses'][String(status)];
  const reference = described?.$ref as string | undefined;
  const response: any =
    reference === undefined
      ? described
      : document.components['responses']?.[reference.slice(reference.lastIndexOf('/') + 1)];
  const schema = response?.content?.['application/json']?.schema;
  return schema === undefined ? undefined : checkerOf(document, schema);
}
