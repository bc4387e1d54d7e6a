// The site of docs/: pages, their order, and what keeps links right that leave the folder. `npm run docs -- build`.
import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitepress';

const root = fileURLToPath(new URL('../../', import.meta.url));
const docs = path.join(root, 'docs');

const pages = (...entries: readonly (readonly [text: string, page: string])[]) =>
  entries.map(([text, page]) => ({ text, link: `/${page}` }));

const sidebar = [
  { text: 'Start: five minutes', link: '/guides/start' },
  {
    text: 'Guides',
    items: pages(
      ['Your first pipeline', 'guides/first-pipeline'],
      ['Fallback and budgets', 'guides/fallback-and-budgets'],
      ['Write a guardrail', 'guides/write-a-guardrail'],
      ['Agents and MCP', 'guides/agents-and-mcp'],
      ['Production', 'guides/production'],
      ['Production on Kubernetes', 'kubernetes'],
      ['Analytics and cost', 'guides/analytics-and-cost'],
    ),
  },
  { text: 'Recipes', link: '/recipes' },
  {
    text: 'Concepts',
    items: pages(
      ['Four ideas', 'concepts'],
      ['The life of a request', 'life-of-a-request'],
      ['The journal', 'journal'],
      ['Runtimes', 'runtimes'],
    ),
  },
  {
    text: 'Requests',
    collapsed: true,
    items: pages(
      ['Providers and dialects', 'providers'],
      ['What a dialect cannot say', 'dialects'],
      ['Configs', 'configs'],
      ['Strategies', 'routing-strategies'],
      ['Resilience', 'resilience'],
      ['Cache', 'cache'],
      ['Stored responses', 'stored-responses'],
      ['Realtime', 'realtime'],
      ['Prompts', 'prompts'],
      ['Explain', 'explain'],
      ['The mock provider', 'mock-provider'],
    ),
  },
  {
    text: 'Policy',
    collapsed: true,
    items: pages(
      ['Authentication', 'authentication'],
      ['Administration', 'administration'],
      ['Policies', 'policies'],
      ['What limits hold', 'limits'],
      ['Guardrails', 'guardrails'],
      ['MCP servers', 'mcp'],
      ['Secrets', 'secrets'],
      ['Features', 'features'],
    ),
  },
  {
    text: 'Logs and money',
    collapsed: true,
    items: pages(
      ['Logs', 'logs'],
      ['What the log keeps', 'log-privacy'],
      ['Analytics', 'analytics'],
      ['Money', 'money'],
      ['Alerts', 'alerts'],
      ['Exports', 'exports'],
      ['Telemetry', 'telemetry'],
      ['Console', 'console'],
      ['Pictures of the console', 'console-pictures'],
    ),
  },
  {
    text: 'Operation',
    collapsed: true,
    items: pages(
      ['Operations', 'operations'],
      ['Safe change', 'safe-change'],
      ['Deployment', 'deployment'],
      ['Workers', 'workers'],
      ['Scaling', 'scaling'],
      ['PostgreSQL', 'postgres'],
      ['Redis', 'redis'],
      ['ClickHouse', 'clickhouse'],
      ['Jobs', 'jobs'],
      ['Backup', 'backup'],
    ),
  },
  {
    text: 'Reference',
    items: [
      ...pages(
        ['Configuration', 'config-reference'],
        ['Plugins', 'plugins'],
        ['Headers', 'headers'],
        ['Errors', 'errors'],
        ['API as a document', 'openapi'],
        ['API coverage', 'api-coverage'],
        ['Dependencies', 'dependencies'],
      ),
      { text: 'API, to be read', link: '/api.html', target: '_self' },
    ],
  },
  {
    text: 'Performance',
    items: pages(
      ['Measure it', 'performance'],
      ['A table of it', 'performance/bench'],
      ['Figures', 'figures'],
    ),
  },
  {
    text: 'Moving here',
    items: pages(
      ['From LiteLLM', 'moving-from-litellm'],
      ['From Portkey', 'moving-from-portkey'],
      ['From Bifrost', 'moving-from-bifrost'],
    ),
  },
  { text: 'Beside other gateways', link: '/comparison' },
  { text: 'Questions', link: '/faq' },
  { text: 'What works today', link: '/status' },
];

/** A link of a page to a file of the repository that is no page: to its copy on the site, or undefined. */
function placeOnSite(link: string, page: string): string | undefined {
  const [file = ''] = link.split('#');
  const target = path.relative(root, path.resolve(path.dirname(path.join(docs, page)), file));
  const isExample = target.startsWith('examples/') && existsSync(path.join(root, target));
  return isExample && /\.(yaml|ts)$/.test(target) ? `/${target}` : undefined;
}

export default defineConfig({
  title: 'Weir',
  description: 'A gateway in front of model providers, composed from plugins in one YAML file',
  srcDir: '../docs',
  outDir: '../dist/site',
  cleanUrls: false,
  head: [
    // No icon: browsers would ask for one and not find it.
    ['link', { rel: 'icon', href: 'data:,' }],
    // A table that is wider than the screen scrolls; its columns stay wide enough for words.
    [
      'style',
      {},
      '.vp-doc td, .vp-doc th { min-width: 6rem; vertical-align: top; } @media (max-width: 640px) { .vp-doc td, .vp-doc th { min-width: 9rem; } }',
    ],
  ],
  lang: 'en',
  rewrites: { 'README.md': 'index.md' },
  // It is a page of its own, without this theme.
  ignoreDeadLinks: [/^\/api(\.html)?$/],
  vite: {
    publicDir: fileURLToPath(new URL('../public', import.meta.url)),
    plugins: [
      {
        // The pages stand outside of the folder that has the packages.
        name: 'packages-of-the-site',
        enforce: 'pre',
        resolveId(id, importer) {
          if (!/^vue(\/|$)/.test(id) || !importer?.startsWith(docs)) return undefined;
          return this.resolve(id, fileURLToPath(import.meta.url), { skipSelf: true });
        },
      },
    ],
    server: { host: '127.0.0.1', fs: { allow: [root] } },
    // The configuration reference is one page of half a megabyte.
    build: { chunkSizeWarningLimit: 4000 },
  },
  markdown: {
    config(markdown) {
      // Words in angle brackets and braces are words: pages hold no components.
      markdown.core.ruler.push('words', ({ tokens, env }) => {
        for (const { type, children } of tokens) {
          if (type !== 'inline') continue;
          const open: boolean[] = [];
          for (const child of children ?? []) {
            if (child.type === 'link_open') {
              const link = child.attrGet('href') ?? '';
              const page = (env as { relativePath?: string }).relativePath ?? '';
              const leaves = /^(\.\.\/)+(examples|scripts)\b/.test(link) || link.includes('/examples/');
              const place = leaves ? placeOnSite(link, page) : undefined;
              if (place !== undefined) {
                child.attrSet('href', place);
                child.attrSet('target', '_self');
              }
              open.push(leaves && place === undefined);
              if (leaves && place === undefined) child.type = 'text';
            } else if (child.type === 'link_close' && open.pop() === true) child.type = 'text';
          }
        }
      });
      const asText = (html: string): string => html.replaceAll('{', '&#123;').replaceAll('}', '&#125;');
      markdown.renderer.rules.text = (tokens, index) =>
        asText(markdown.utils.escapeHtml(tokens[index]?.content ?? ''));
      markdown.renderer.rules.code_inline = (tokens, index) =>
        `<code>${asText(markdown.utils.escapeHtml(tokens[index]?.content ?? ''))}</code>`;
    },
  },
  themeConfig: {
    nav: [
      { text: 'Start', link: '/guides/start' },
      { text: 'Recipes', link: '/recipes' },
      { text: 'Reference', link: '/config-reference' },
      { text: 'API', link: '/api.html', target: '_self' },
    ],
    sidebar,
    outline: [2, 3],
    search: { provider: 'local' },
  },
});
