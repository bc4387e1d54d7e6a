import { Gauge, KeyRound, Settings, ShieldCheck, Users } from 'lucide-react';
import type { Place } from '@/shell/places';
import { common } from '@/texts/common';

const { nav, words } = common;

/** The places of keys, people and limits, and of what governs them. */
export const accessPlaces: readonly Place[] = [
  {
    ...{ path: '/keys', text: nav.keys, group: 'access', icon: KeyRound },
    scopes: [
      'workspace_service_api_keys.list',
      'workspace_user_api_keys.list',
      'organisation_service_api_keys.list',
    ],
    words: words.keys,
    page: () => import('@/pages/keys/keys'),
  },
  {
    ...{ path: '/limits', text: nav.limits, group: 'access', icon: Gauge },
    scopes: [
      ...['policies.list', 'workspace_service_api_keys.list', 'workspace_user_api_keys.list'],
      'workspaces.list',
    ],
    words: words.limits,
    page: () => import('@/pages/limits/limits'),
  },
  {
    ...{ path: '/audit', text: nav.audit, group: 'govern', icon: ShieldCheck, scopes: ['audit_logs.list'] },
    words: words.audit,
    page: () => import('@/pages/audit/audit'),
  },
  {
    ...{
      path: '/people',
      text: nav.people,
      group: 'access',
      icon: Users,
      scopes: ['organisation_users.list'],
    },
    words: words.people,
    page: () => import('@/pages/people/people'),
  },
  {
    ...{
      path: '/settings',
      text: nav.settings,
      group: 'govern',
      icon: Settings,
      scopes: ['organisation_settings.read'],
    },
    words: words.settings,
    page: () => import('@/pages/settings/settings'),
  },
];
