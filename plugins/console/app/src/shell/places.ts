import type { FunctionComponent } from 'react';
import {
  Boxes,
  HeartPulse,
  House,
  Rocket,
  Route,
  ScrollText,
  SquareTerminal,
  Waypoints,
  Workflow,
  type LucideIcon,
} from 'lucide-react';
import { useOperationsAccess } from '@/api/operations';
import { useSession } from '@/api/session';
import { buildPlaces } from '@/shell/build-places';
import { accessPlaces } from '@/shell/access-places';
import { watchPlaces } from '@/shell/watch-places';
import { common } from '@/texts/common';

type Page = () => Promise<{ readonly default: FunctionComponent }>;

/** A place in the console that the navigation and the palette lead to. */
export interface Place {
  /** Below `/console`. */
  readonly path: string;
  readonly text: string;
  readonly group: keyof typeof common.nav.groups;
  readonly icon: LucideIcon;
  /** Any one of them suffices to see it; none: it shows the gateway itself (`server.operations`). */
  readonly scopes: readonly string[];
  /** Other words for it, for the palette. */
  readonly words?: string;
  readonly page: Page;
  /** Pages below it, by their path: `/$id`. */
  readonly below?: Readonly<Record<string, Page>>;
}

const { nav, words } = common;

export const places: readonly Place[] = [
  {
    ...{ path: '/', text: nav.home, group: 'watch', icon: House, scopes: ['analytics.view'] },
    words: words.home,
    page: () => import('@/pages/home/home'),
  },
  {
    ...{
      path: '/logs',
      text: nav.logs,
      group: 'watch',
      icon: ScrollText,
      scopes: ['logs.list', 'logs.view'],
    },
    words: words.logs,
    page: () => import('@/pages/logs/logs'),
    below: { '/$id': () => import('@/pages/logs/log') },
  },
  {
    ...{ path: '/traces', text: nav.traces, group: 'watch', icon: Waypoints, scopes: ['logs.view'] },
    words: words.traces,
    page: () => import('@/pages/traces/traces'),
    below: { '/$id': () => import('@/pages/traces/trace') },
  },
  ...watchPlaces,
  {
    ...{ path: '/start', text: nav.start, group: 'build', icon: Rocket },
    scopes: ['workspace_service_api_keys.create'],
    words: words.start,
    page: () => import('@/pages/start/start'),
  },
  {
    ...{
      path: '/playground',
      text: nav.playground,
      group: 'build',
      icon: SquareTerminal,
      scopes: ['completions.write'],
    },
    words: words.playground,
    page: () => import('@/pages/playground/playground'),
  },
  {
    ...{
      path: '/configs',
      text: nav.configs,
      group: 'build',
      icon: Route,
      scopes: ['configs.list', 'configs.read'],
    },
    words: words.configs,
    page: () => import('@/pages/configs/configs'),
    below: { '/$id': () => import('@/pages/configs/config') },
  },
  ...buildPlaces,
  {
    ...{
      path: '/workspaces',
      text: nav.workspaces,
      group: 'access',
      icon: Boxes,
      scopes: ['workspaces.list'],
    },
    words: words.workspaces,
    page: () => import('@/pages/workspaces/workspaces'),
  },
  ...accessPlaces,
  {
    ...{ path: '/pipelines', text: nav.pipelines, group: 'operate', icon: Workflow, scopes: [] },
    words: words.pipelines,
    page: () => import('@/pages/pipelines/pipelines'),
  },
  {
    ...{ path: '/health', text: nav.health, group: 'operate', icon: HeartPulse, scopes: [] },
    words: words.health,
    page: () => import('@/pages/health/health'),
  },
];

/** The places that the caller may see. */
export function useVisiblePlaces(): readonly Place[] {
  const { may } = useSession();
  const operates = useOperationsAccess();
  return places.filter(({ scopes }) => (scopes.length === 0 ? operates : may(...scopes)));
}
