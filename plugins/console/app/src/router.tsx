import { createRootRoute, createRoute, createRouter, lazyRouteComponent, Link } from '@tanstack/react-router';
import { Layout } from '@/shell/layout';
import { places } from '@/shell/places';
import { common } from '@/texts/common';
import { Empty, Failed, Loading } from '@/ui/states';

const root = createRootRoute({
  component: Layout,
  notFoundComponent: () => (
    <Empty
      title={common.state.notFound}
      action={
        <Link to="/" className="text-accent underline">
          {common.state.home}
        </Link>
      }
    />
  ),
});

// Pages are loaded when somebody goes there.
const routes = places.flatMap(({ path, page, below = {} }) => [
  createRoute({ getParentRoute: () => root, path, component: lazyRouteComponent(page) }),
  ...Object.entries(below).map(([own, inner]) =>
    createRoute({
      getParentRoute: () => root,
      path: path === '/' ? own : path + own,
      component: lazyRouteComponent(inner),
    }),
  ),
]);

export const router = createRouter({
  routeTree: root.addChildren(routes),
  basepath: '/console',
  defaultPreload: 'intent',
  defaultPendingComponent: () => <Loading />,
  defaultErrorComponent: ({ error }) => <Failed error={error} />,
  scrollRestoration: true,
});
