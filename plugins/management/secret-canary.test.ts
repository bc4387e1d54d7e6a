// A planted secret is nowhere in clear text: in no answer, log line, audit row, export or database dump.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { sql } from 'drizzle-orm';
import { runExportCommand } from '../../core/administration/cli/administration-command.ts';
import type { Resources } from '../../core/ports/resources.ts';
import { recordingLog, testClock } from '../../storage/embedded/chdb-fixture.ts';
import type { Database } from '../../storage/postgres/database.ts';
import { createResources } from '../../storage/postgres/resources.ts';
import { startAdministration, type AdminCall } from '../../tests/kit/administration-kit.ts';
import { fakeMcp } from '../../tests/kit/fake-mcp.ts';
import { openTestDatabase } from '../../tests/kit/postgres-kit.ts';

let database: Database;
let resources: Resources;
const closing: (() => Promise<void>)[] = [];
before(async () => {
  database = await openTestDatabase({ after: (close) => void closing.push(close) });
  resources = createResources({ database, clock: testClock, log: recordingLog() });
});
after(async () => {
  for (const close of closing) await close();
});

/** All rows of all tables, as JSON. */
async function dump(): Promise<string> {
  const { rows: tables } = await database.query((statements) =>
    statements.execute(sql`SELECT tablename FROM pg_tables WHERE schemaname = 'public'`),
  );
  const texts: string[] = [];
  for (const { tablename } of tables as { tablename: string }[]) {
    const { rows } = await database.query((statements) =>
      statements.execute(sql`SELECT row_to_json(t)::text AS row FROM ${sql.identifier(tablename)} t`),
    );
    texts.push(...(rows as { row: string }[]).map(({ row }) => row));
  }
  return texts.join('\n');
}

const canaries: Readonly<Record<string, string>> = {
  vault_token: 'canary-vault-token-5c1f',
  vault_secret_id: 'canary-vault-secret-id-7a2e',
  aws_secret_access_key: 'canary-aws-secret-access-key-91bd',
  azure_entra_client_secret: 'canary-azure-client-secret-03ce',
  integration_key: 'canary-integration-key-48f0',
  mcp_header: 'canary-mcp-header-6e2b',
  guardrail_key: 'canary-guardrail-key-2d9a',
};
const vault = { vault_addr: 'https://vault.example.com' };
const azure = { azure_entra_tenant_id: 'tenant', azure_entra_client_id: 'client' };
const references: readonly (readonly [manager: string, auth: object, path: string])[] = [
  ['hashicorp_vault', { vault_auth_type: 'token', vault_token: canaries['vault_token'], ...vault }, 'kv/a'],
  [
    'hashicorp_vault',
    {
      vault_auth_type: 'approle',
      vault_role_id: 'role',
      ...vault,
      vault_secret_id: canaries['vault_secret_id'],
    },
    'kv/b',
  ],
  [
    'aws_sm',
    {
      aws_auth_type: 'accessKey',
      aws_access_key_id: 'AKIDEXAMPLE',
      aws_region: 'us-east-1',
      aws_secret_access_key: canaries['aws_secret_access_key'],
    },
    'c',
  ],
  [
    'azure_kv',
    {
      azure_auth_mode: 'entra',
      ...azure,
      azure_vault_url: 'https://name.vault.azure.net',
      azure_entra_client_secret: canaries['azure_entra_client_secret'],
    },
    'd',
  ],
];

test('a planted secret is in no answer, log line, audit row, export or dump of the database', async (t) => {
  const mcp = fakeMcp();
  const { tenant, call, gateway } = await startAdministration(t, resources, { mcp });
  const { owner, workspaceId } = await tenant('canary');
  const seen: string[] = [];
  const ask = async (one: AdminCall) => {
    const answer = await call(owner, one);
    seen.push(answer.text, JSON.stringify(answer.headers));
    return answer;
  };
  /** The life of one record; what is refused, and a key that may not, leave traces as well. */
  const live = async (path: string, body: Record<string, unknown>, change: object) => {
    const made = await ask({ path, body });
    assert.equal(made.status, 200, made.text);
    const at = `${path}/${made.json().slug}`;
    for (const one of [
      { path },
      { path: at },
      { method: 'PUT', path: at, body: change },
      { method: 'PUT', path: at, body: change, headers: { 'if-match': '"1"' } },
      { path, body: { ...body, slug: made.json().slug } },
      { path, body: { ...body, unknown_field: 1 } },
    ])
      await ask(one);
  };
  for (const [manager, auth, secret_path] of references) {
    const body = { name: manager, manager_type: manager, auth_config: auth, secret_path };
    await live('/secret-references', body, { auth_config: auth });
  }
  const key = canaries['integration_key'];
  const integration = { name: 'OpenAI', ai_provider_id: 'openai', key };
  await live('/integrations', integration, { key });
  const checks = [
    { id: 'lasso.classify', parameters: { credentials: { apiKey: canaries['guardrail_key'] } } },
  ];
  await live('/guardrails', { name: 'Lasso', checks, actions: {} }, { checks });
  const custom_headers = { 'x-tenant': canaries['mcp_header'] };
  const server = {
    name: 'Tickets',
    slug: 'tickets',
    url: 'https://tickets.example.com/mcp',
    workspace_id: workspaceId,
    auth_type: 'headers',
    transport: 'http',
    configurations: { custom_headers },
  };
  await live('/mcp-integrations', server, { configurations: { custom_headers } });
  const used = { name: 'Tickets', mcp_integration_id: 'tickets', workspace_id: workspaceId };
  await live('/mcp-servers', { ...used, slug: 'mine' }, { name: 'Ours' });
  // A server that repeats what it was sent.
  mcp.answer = new Error(canaries['mcp_header']);
  for (const path of ['/mcp-integrations/tickets/metadata', '/mcp-servers/mine/metadata'])
    assert.equal((await ask({ path })).json().sync_status, 'failed');
  assert.equal((await ask({ path: '/mcp-servers/mine/test', body: {} })).json().success, false);
  assert.equal(mcp.addresses[0]?.headers[1], canaries['mcp_header']);

  const exported: string[] = [];
  await runExportCommand(
    { name: 'export', config: undefined, data: '', out: undefined, organisation: undefined },
    {
      atStore: (_, use) => use(resources),
      print: (text) => void exported.push(text),
      complain: (text) => void exported.push(text),
    },
  );
  const everything: Readonly<Record<string, string>> = {
    answers: seen.join('\n'),
    log: JSON.stringify(gateway.lines),
    export: exported.join('\n'),
    database: await dump(),
  };
  assert.match(everything['database'] ?? '', /v1\.[0-9a-f]{12}\./, 'sealed, the secrets are there');
  for (const [place, text] of Object.entries(everything)) {
    for (const [name, canary] of Object.entries(canaries)) {
      const forms = [canary, Buffer.from(canary).toString('base64'), Buffer.from(canary).toString('hex')];
      for (const form of forms) assert.ok(!text.includes(form), `${name} is in the ${place}`);
    }
  }
});
