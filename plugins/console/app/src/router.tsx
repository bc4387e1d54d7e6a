import { createRootRoute, createRoute, createRouter, Link, Navigate } from '@tanstack/react-router';
import { useSession } from '@/api/session';
import { Layout } from '@/shell/layout';
import { lazyPage } from '@/shell/lazy-page';
import { places, useVisiblePlaces, type Place } from '@/shell/places';
import { common } from '@/texts/common';
import { Page } from '@/ui/page';
import { Failed, Loading } from '@/ui/states';

const root = createRootRoute({
  component: Layout,
  notFoundComponent: () => (
    <Page title={common.state.notFound} intro={common.state.notFoundHelp}>
      <p>
        <Link to="/" className="text-accent inline-flex items-center underline">
          {common.state.home}
        </Link>
      </p>
    </Page>
  ),
});

/**
 * The page of a place, loaded when somebody goes there. A caller without its scopes is led on from the home page, and told
 * elsewhere; nothing is asked of the gateway that it would refuse.
 */
function guarded({ path, scopes }: Place, name: string, page: Place['page']) {
  const Loaded = lazyPage(name, page);
  function Guarded() {
    const { may } = useSession();
    const [first] = useVisiblePlaces();
    if (scopes.length === 0 || may(...scopes)) return <Loaded />;
    if (path === '/' && first !== undefined) return <Navigate to={first.path} replace />;
    return (
      <Page title={common.state.forbidden}>
        <p className="max-w-prose">
          {common.state.forbiddenAny}{' '}
          {scopes.map((scope) => (
            <code key={scope} className="bg-raised mr-1 rounded px-1.5 py-0.5 font-mono text-xs">
              {scope}
            </code>
          ))}
        </p>
      </Page>
    );
  }
  return Object.assign(Guarded, { preload: Loaded.preload });
}

const routes = places.flatMap((place) => {
  const { path, page, below = {} } = place;
  return [
    createRoute({ getParentRoute: () => root, path, component: guarded(place, path, page) }),
    ...Object.entries(below).map(([own, inner]) =>
      createRoute({
        getParentRoute: () => root,
        path: path === '/' ? own : path + own,
        component: guarded(place, path + own, inner),
      }),
    ),
  ];
});

export const router = createRouter({
  routeTree: root.addChildren(routes),
  basepath: '/console',
  defaultPreload: 'intent',
  defaultPendingComponent: () => <Loading />,
  defaultErrorComponent: ({ error }) => <Failed error={error} />,
  scrollRestoration: true,
});
