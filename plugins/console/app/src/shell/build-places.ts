import { MessageSquareText, Plug, Server, ShieldCheck, Vault, Wrench } from 'lucide-react';
import type { Place } from '@/shell/places';
import { common } from '@/texts/common';

const { nav, words } = common;

/** The places in which one builds: prompts, guardrails, providers, MCP servers. */
export const buildPlaces: readonly Place[] = [
  {
    ...{
      path: '/prompts',
      text: nav.prompts,
      group: 'build',
      icon: MessageSquareText,
      scopes: ['prompts.list'],
    },
    words: words.prompts,
    page: () => import('@/pages/prompts/prompts'),
    below: { '/$id': () => import('@/pages/prompts/prompt') },
  },
  {
    ...{ path: '/guardrails', text: nav.guardrails, group: 'build', icon: ShieldCheck },
    scopes: ['guardrails.list', 'organisation_guardrails.list'],
    words: words.guardrails,
    page: () => import('@/pages/guardrails/guardrails'),
  },
  {
    ...{ path: '/integrations', text: nav.integrations, group: 'build', icon: Plug },
    scopes: ['organisation_integrations.list', 'workspace_integrations.list'],
    words: words.integrations,
    page: () => import('@/pages/providers/integrations'),
  },
  {
    ...{ path: '/providers', text: nav.providers, group: 'build', icon: Server },
    scopes: ['providers.list', 'virtual_keys.list'],
    words: words.providers,
    page: () => import('@/pages/providers/providers'),
  },
  {
    ...{
      path: '/secrets',
      text: nav.secrets,
      group: 'build',
      icon: Vault,
      scopes: ['secret_references.list'],
    },
    words: words.secrets,
    page: () => import('@/pages/providers/secrets'),
  },
  {
    ...{ path: '/mcp', text: nav.mcp, group: 'build', icon: Wrench },
    scopes: ['mcp_servers.list', 'organisation_mcp_integrations.list', 'workspace_mcp_integrations.list'],
    words: words.mcp,
    page: () => import('@/pages/mcp/mcp'),
  },
];
