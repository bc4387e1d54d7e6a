import { MessageSquareText } from 'lucide-react';
import type { Place } from '@/shell/places';
import { common } from '@/texts/common';

const { nav } = common;

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
    words: 'templates partials labels collections versions',
    page: () => import('@/pages/prompts/prompts'),
    below: { '/$id': () => import('@/pages/prompts/prompt') },
  },
];
