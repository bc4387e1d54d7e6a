// The console's main pages with sample data, in both looks. `scripts/console-screenshots.ts` keeps the pictures.
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { type McpServer, startMcpServer } from '../kit/mcp-server.ts';
import { eventually } from '../kit/process-kit.ts';
import { consoleConfig, openWindow, seedDemo, useConsole } from './console-kit.ts';

/** Where the pictures are kept; without it they are looked at and forgotten. */
const kept = process.env['WEIR_PICTURES'];
const rows = kept === undefined ? '6000' : '80000';
/** A picture of an empty page of this size has less. */
const leastBytes = 40_000;
const content = 'Which rivers flow into the North Sea? Answer with three names.';
/** Some requests are dear, so that budgets are used. */
const prices = { models: [{ provider: 'mock', model: 'mock-large', input: 0, output: 0, request: 0.15 }] };
const providers = {
  busy: { base_url: 'mock:?status=503&latency_ms=420', credentials: 'none' },
  calm: { base_url: 'mock:?latency_ms=610', credentials: 'none' },
};
const target = (model: string, weight?: number) => ({
  ...{ provider: 'mock', override_params: { model } },
  ...(weight !== undefined && { weight }),
});
const routing = {
  strategy: { mode: 'fallback', on_status_codes: [429, 503] },
  targets: [
    target('mock-small'),
    {
      strategy: { mode: 'loadbalance' },
      targets: [target('mock-medium', 3), target('mock-large', 1)],
    },
  ],
};
const failing = {
  strategy: { mode: 'fallback', on_status_codes: [503] },
  targets: [{ provider: '@busy' }, { provider: '@calm' }],
};
const tickets = [
  {
    ...{ name: 'find_tickets', description: 'Finds tickets by words, state and age.' },
    inputSchema: { type: 'object', properties: { words: { type: 'string' } }, required: ['words'] },
  },
  {
    ...{ name: 'answer_ticket', description: 'Writes an answer to the customer.' },
    inputSchema: { type: 'object', properties: { id: { type: 'string' }, text: { type: 'string' } } },
  },
  {
    ...{ name: 'delete_ticket', description: 'Deletes a ticket for good.' },
    inputSchema: { type: 'object' },
  },
];
const template = (tone: string, ...more: readonly string[]) =>
  JSON.stringify([
    {
      role: 'system',
      content: [`You answer customers ${tone}.`, 'Name the document you take it from.', ...more].join('\n'),
    },
    { role: 'user', content: '{{question}}' },
  ]);

describe('pictures of the console', () => {
  let server: McpServer;
  const gateway = useConsole(async () => {
    server = await startMcpServer({ results: { 'tools/list': () => ({ tools: tickets }) } });
    gateway.after(() => server.close());
    const config = { ...consoleConfig, prices, providers, security: { trusted_hosts: [server.host] } };
    await seedDemo(gateway.data, config, ['--rows', rows, '--days', '60']);
    return config;
  });
  /** Ids of what is seeded, by the page that shows it. */
  const ids: Record<string, string> = {};
  const workspaces = new Map<string, string>();
  /** Of keys, by their names. */
  const secrets = new Map<string, string>();
  const post = (place: string, body: object): Promise<any> => gateway.api('POST', place, body);
  const ask = async (text: string, options: Parameters<typeof gateway.chat>[1] = {}): Promise<string> => {
    const answer = await gateway.chat(text, options);
    // The last request of a budget may be refused.
    assert.ok([200, 412].includes(answer.status), await answer.text());
    return answer.headers.get('x-service-request-id') ?? '';
  };

  /** Workspaces with people, and keys that have used some of what they may. */
  async function seedAccess(): Promise<void> {
    for (const [name, description, limit] of [
      ['Website', 'Search and help on the public site', 20],
      ['Support', 'Drafts of answers to tickets', 12],
      ['Research', 'Experiments, evaluations', 5],
    ] as const) {
      const budget = { type: 'cost', credit_limit: limit, periodic_reset: 'monthly' };
      const { id } = await post('/admin/workspaces', { name, description, usage_limits: [budget] });
      workspaces.set(name, id);
    }
    await gateway.join('Ann', workspaces.get('Website'));
    await gateway.join('Kim', workspaces.get('Support'));
    for (const [name, workspace, limit, requests] of [
      ['Site search', 'Website', 5, 26],
      ['Help widget', 'Website', 4, 9],
      ['Ticket drafts', 'Support', 2.2, 13],
      ['Nightly reports', 'Research', 1, 7],
      ['Evaluations', 'Research', 6, 12],
    ] as const) {
      const { key = '' } = await post('/api-keys/workspace/service', {
        ...{ name, workspace_id: workspaces.get(workspace), scopes: ['completions.write'] },
        usage_limits: { type: 'cost', credit_limit: limit, periodic_reset: 'monthly' },
        rate_limits: [{ type: 'requests', unit: 'rpm', value: 600 }],
      });
      for (let sent = 0; sent < requests; sent += 1)
        await ask('Summarise this page.', { key, body: { model: 'mock-large' } });
      secrets.set(name, key);
    }
    await post('/policies/usage-limits', {
      ...{ name: 'Each team', type: 'cost', credit_limit: 1.5, periodic_reset: 'weekly' },
      conditions: [{ key: 'metadata.team', value: '*' }],
      group_by: [{ key: 'metadata.team' }],
    });
    for (const [team, requests] of Object.entries({ search: 3, support: 7, mobile: 5 }))
      for (let sent = 0; sent < requests; sent += 1)
        await ask('Translate this.', {
          headers: { 'x-service-metadata': JSON.stringify({ team }) },
          body: { model: 'mock-large' },
        });
  }

  /** What requests name, and the hosts behind. */
  async function seedBuilding(): Promise<void> {
    const own = { workspace_id: gateway.workspace };
    const config = await post('/configs', { ...own, name: 'Cheap first', config: routing });
    ids['config'] = config.data.slug;
    const guardrail = await post('/guardrails', {
      name: 'No addresses, no rivals',
      checks: [
        { id: 'default.pii', parameters: { redact: true } },
        { id: 'default.contains', parameters: { words: ['Initech', 'Initrode'], operator: 'none' } },
        { id: 'default.wordCount', parameters: { minWords: 1, maxWords: 300 } },
      ],
      actions: { deny: true },
    });
    ids['guardrail'] = guardrail.id;
    const prompt = await post('/prompts', {
      ...{ ...own, name: 'Answer a customer', model: 'mock-gpt', parameters: { temperature: 0.2 } },
      string: template('in short sentences'),
    });
    ids['prompt'] = prompt.id;
    await gateway.api('PUT', `/prompts/${prompt.id}`, {
      ...{ patch: true, version_description: 'Warmer, and honest about gaps' },
      string: template('warmly, in short sentences', 'Say so when no document has the answer.'),
    });
    for (const [name, provider, users] of [
      ['OpenAI, production', 'openai', ['Website', 'Support']],
      ['OpenAI, experiments', 'openai', ['Research']],
      ['Anthropic', 'anthropic', ['Website', 'Support', 'Research']],
      ['Mistral', 'mistral-ai', ['Research']],
    ] as const) {
      const slug = name.toLowerCase().replaceAll(/[^a-z]+/g, '-');
      const { id } = await post('/integrations', {
        ...{ name, slug, ai_provider_id: provider, key: 'sk-0123456789abcdef' },
      });
      await gateway.api('PUT', `/integrations/${id}/workspaces`, {
        workspaces: users.map((user) => ({ id: workspaces.get(user), enabled: true })),
      });
    }
    const made = await gateway.api('GET', `/providers?workspace_id=${workspaces.get('Website')}`);
    for (const provider of made.data)
      if (provider.workspace_id === workspaces.get('Website'))
        await gateway.api('PUT', `/providers/${provider.id}`, {
          usage_limits: { type: 'cost', credit_limit: 500, periodic_reset: 'monthly' },
        });
    // The audit trail names more than one who changes.
    const { key } = await gateway.makeKey('Deployment', ['prompts.create']);
    for (const name of ['production', 'staging'])
      await gateway.api('POST', '/labels', { ...own, name }, { 'x-service-api-key': key });
    const tools = await post('/mcp-integrations', {
      ...{ name: 'Tickets', slug: 'tickets', url: server.url, auth_type: 'none', transport: 'http' },
    });
    ids['tools'] = tools.id;
    await gateway.api('PUT', `/mcp-integrations/${tools.id}/workspaces`, {
      global_workspace_access: { enabled: true },
    });
    await post('/mcp-servers', { ...own, name: 'Ticket desk', slug: 'desk', mcp_integration_id: tools.id });
  }

  before(async () => {
    if (kept !== undefined) await mkdir(kept, { recursive: true });
    await seedAccess();
    await seedBuilding();
    const ago = (days: number): string => new Date(Date.now() - days * 86_400_000).toISOString();
    for (const [format, description, filters] of [
      ['csv', 'Cost of the month, for accounting', { time_of_generation_min: ago(30) }],
      [
        'jsonl',
        'Requests of the search team',
        { time_of_generation_min: ago(30), metadata: { team: 'search' } },
      ],
      ['parquet', 'All of this week', { time_of_generation_min: ago(7) }],
    ] as const) {
      const { id } = await post('/logs/exports', {
        ...{ workspace_id: gateway.workspace, filters, format, description },
        requested_data: ['id', 'created_at', 'ai_model', 'cost'],
      });
      await post(`/logs/exports/${id}/start`, {});
    }
    ids['log'] = await ask(content, {
      key: secrets.get('Site search') ?? '',
      headers: {
        'x-service-config': JSON.stringify(failing),
        'x-service-metadata': JSON.stringify({ _user: 'ada', team: 'search' }),
      },
    });
    await eventually(() => gateway.api('GET', `/logs/${ids['log']}`).then(Boolean, () => undefined));
    const traces = await gateway.api('GET', `/traces?time_of_generation_min=${ago(7)}&page_size=200`);
    const [trace] = traces.data.toSorted(
      (one: { requests: number }, other: { requests: number }) => other.requests - one.requests,
    );
    ids['trace'] = trace.trace_id;
  });

  const text = (words: string) => (page: Page) =>
    page.getByRole('main').getByText(words).filter({ visible: true }).first().waitFor();
  const inDialog = (words: string) => (page: Page) =>
    page.getByRole('dialog').getByText(words).first().waitFor();
  const charts = async (page: Page): Promise<void> => page.locator('canvas').nth(1).waitFor();

  /** Each page, with what is there when its data is drawn. */
  const pages: readonly [name: string, place: () => string, drawn: (page: Page) => Promise<unknown>][] = [
    [
      'home',
      () => '?range=30d',
      async (page) => {
        await charts(page);
        await page.getByRole('table', { name: /^By / }).locator('tbody tr').nth(2).waitFor();
      },
    ],
    [
      'logs',
      () => '/logs?range=yesterday',
      (page) => page.getByRole('table', { name: 'Requests' }).locator('[data-row]').nth(9).waitFor(),
    ],
    [
      'request',
      () => `/logs/${ids['log']}`,
      (page) => page.getByRole('article').getByText(content).first().waitFor(),
    ],
    ['traces', () => '/traces?range=yesterday', (page) => page.locator('main tbody tr').nth(5).waitFor()],
    ['trace', () => `/traces/${ids['trace']}`, text('plan')],
    ['feedback', () => '/feedback?range=30d', (page) => page.locator('canvas').first().waitFor()],
    ['exports', () => '/exports', text('All of this week')],
    ['prompt', () => `/prompts/${ids['prompt']}?tab=versions&from=1&to=2`, text('Say so when no document')],
    [
      'guardrail',
      () => `/guardrails?open=${ids['guardrail']}&tab=try`,
      async (page) => {
        const words = 'Is Initech better? Write to ada@example.com.';
        await page.getByLabel('Text', { exact: true }).fill(words);
        await page.getByRole('button', { name: 'Try it' }).click();
        await page.getByText('Refused: the request does not reach the provider.').waitFor();
      },
    ],
    ['providers', () => '/providers', text('@anthropic')],
    ['mcp', () => `/mcp?view=integrations&open=${ids['tools']}&tab=tools`, inDialog('delete_ticket')],
    [
      'config',
      () => `/configs/${ids['config']}`,
      (page) =>
        page
          .getByRole('region', { name: 'Where it would go' })
          .getByText('429, 503 → config.targets[1]')
          .first()
          .waitFor(),
    ],
    [
      'routing',
      () => `/configs/${ids['config']}?view=graph`,
      (page) =>
        page
          .getByRole('button', { name: /mock-large/ })
          .first()
          .waitFor(),
    ],
    [
      'playground',
      () => '/playground',
      async (page) => {
        await page.getByLabel('Text 1').fill(content);
        await page.getByLabel('Model').fill('mock-gpt');
        await page.getByRole('button', { name: 'Add a column' }).click();
        await page.getByRole('region', { name: 'Column 2' }).getByLabel('Model').fill('mock-large');
        await page.keyboard.press('Control+Enter');
        await page.getByText('Log entry').nth(1).waitFor();
        await page.getByLabel('Model').last().blur();
      },
    ],
    ['workspaces', () => '/workspaces', text('Research')],
    ['keys', () => '/keys', text('Nightly reports')],
    [
      'limits',
      () => '/limits',
      (page) => page.getByRole('table', { name: 'Budgets' }).getByText('Nightly reports').waitFor(),
    ],
    [
      'audit',
      () => '/audit',
      (page) => page.getByRole('table', { name: 'Audit trail' }).locator('tbody tr').nth(9).waitFor(),
    ],
    ['pipelines', () => '/pipelines', text('pglite')],
    ['health', () => '/health', text('Rows')],
  ];

  // Every page is drawn with data in `pages.test.ts`; here those with charts, editors and answers are enough.
  const main = ['home', 'logs', 'request', 'config', 'playground', 'trace'];
  for (const [name, place, drawn] of pages.filter(([name]) => kept !== undefined || main.includes(name)))
    test(`${name} is drawn with its data, light and dark`, async (t) => {
      // A refused text of a guardrail has this status.
      const page = await openWindow(t, gateway, { place: '/console/people', expected: /446/ });
      await page.goto(`/console${place()}`);
      await drawn(page);
      const loading = page.locator('[role=status][aria-label=Loading]');
      await eventually(async () => (await loading.count()) === 0 || undefined);
      await page.waitForLoadState('networkidle');
      for (const look of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme: look });
        await page.locator(look === 'dark' ? 'html.dark' : 'html:not(.dark)').waitFor();
        const picture = await page.screenshot({ animations: 'disabled' });
        assert.ok(picture.length > leastBytes, `${name}, ${look}: ${picture.length} bytes`);
        if (kept !== undefined) await writeFile(path.join(kept, `${name}-${look}.png`), picture);
      }
    });
});
