import type { FunctionComponent } from 'react';
import { useQuery } from '@tanstack/react-query';
import { ask } from '@/api/client';
import type { Place } from '@/shell/places';
import { Loaded } from '@/ui/states';

const reloaded = 'weir-console-reloaded';

/** Loads the program of a page; rejects as every request does while the gateway does not answer. */
async function load(page: Place['page']): Promise<FunctionComponent> {
  try {
    const module = await page();
    sessionStorage.removeItem(reloaded);
    return module.default;
  } catch (error) {
    await ask('/healthz');
    // It answers, so its console is another version by now: that one is loaded, once.
    if (sessionStorage.getItem(reloaded) === null) {
      sessionStorage.setItem(reloaded, '1');
      location.reload();
    }
    throw error;
  }
}

/** A page that is loaded when somebody goes there, or with `preload` before. */
export function lazyPage(name: string, page: Place['page']) {
  let found: { readonly Page: FunctionComponent } | undefined;
  const read = async (): Promise<{ readonly Page: FunctionComponent }> =>
    (found ??= { Page: await load(page) });
  function LazyPage() {
    const query = useQuery({
      queryKey: ['page', name],
      queryFn: read,
      ...(found !== undefined && { initialData: found }),
      staleTime: Infinity,
      structuralSharing: false,
    });
    return <Loaded query={query}>{({ Page }) => <Page />}</Loaded>;
  }
  // What fails here is shown when the page is.
  const preload = async (): Promise<void> => {
    await read().catch(() => undefined);
  };
  return Object.assign(LazyPage, { preload });
}
