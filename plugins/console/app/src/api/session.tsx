import { createContext, useCallback, useContext, useEffect, useMemo, useState, type ReactNode } from 'react';
import { useQueryClient } from '@tanstack/react-query';
import { facts, type PageSession } from '@/api/facts';
import { api, ApiError, dataOf, json, send, setCsrf, whenSessionEnds } from '@/api/client';
import type { operations } from '@/api/schema.gen';

/** The signed-in caller, as `GET /me` shows it. */
export type Caller = operations['caller.get']['responses'][200]['content']['application/json'];

interface SessionState {
  /** Undefined: not known yet; null: nobody is signed in. */
  readonly caller: Caller | null | undefined;
  /** The session was ended by the gateway, not by the user. */
  readonly ended: boolean;
  signIn(credential: string): Promise<void>;
  signOut(): Promise<void>;
  /** Whether the caller holds one of these scopes. What it may not do is not shown; the gateway refuses it all the same. */
  may(...scopes: readonly string[]): boolean;
}

const Context = createContext<SessionState | undefined>(undefined);

export function SessionProvider({ children }: { readonly children: ReactNode }) {
  const [caller, setCaller] = useState<Caller | null>();
  const [ended, setEnded] = useState(false);
  const queries = useQueryClient();

  const load = useCallback(async (): Promise<void> => {
    const session =
      facts.session ?? (await json<{ session: PageSession | null }>('/console/session')).session;
    setCsrf(session?.csrf);
    if (session === null) return setCaller(null);
    setCaller(await dataOf(api.GET('/me')));
  }, []);

  useEffect(() => {
    whenSessionEnds(() => {
      setCsrf(undefined);
      setEnded(true);
      setCaller(null);
    });
    load().catch(() => setCaller(null));
  }, [load]);

  const signIn = useCallback(
    async (credential: string): Promise<void> => {
      // The key is tried first: a wrong one is told in the gateway's words, and no cookie is set.
      const headers = { [`${facts.prefix}-api-key`]: credential };
      const found = (await (await send('/me', { headers })).json()) as Caller;
      const body = JSON.stringify({ credential });
      const { session } = await json<{ session: PageSession }>('/console/session', {
        method: 'POST',
        body,
        headers: { 'content-type': 'application/json' },
      });
      setCsrf(session.csrf);
      queries.clear();
      setEnded(false);
      setCaller(found);
    },
    [queries],
  );

  const signOut = useCallback(async (): Promise<void> => {
    await send('/console/session', { method: 'DELETE' }).catch((error: unknown) => {
      if (!(error instanceof ApiError)) throw error;
    });
    setCsrf(undefined);
    queries.clear();
    setEnded(false);
    setCaller(null);
  }, [queries]);

  const state = useMemo((): SessionState => {
    const held = new Set(caller?.scopes ?? []);
    return { caller, ended, signIn, signOut, may: (...scopes) => scopes.some((scope) => held.has(scope)) };
  }, [caller, ended, signIn, signOut]);
  return <Context.Provider value={state}>{children}</Context.Provider>;
}

export function useSession(): SessionState {
  const state = useContext(Context);
  if (state === undefined) throw new Error('The session is used outside of its provider.');
  return state;
}

/** Whether a caller sees all workspaces of the organisation, and says of what it makes to which one it belongs. */
export function isOfOrganisation(caller: Pick<Caller, 'type'>): boolean {
  return caller.type === 'owner' || caller.type === 'organisation-service';
}

/** The signed-in caller, inside of the pages that are only shown to one. */
export function useCaller(): Caller {
  const { caller } = useSession();
  if (!caller) throw new Error('This page is shown without a caller.');
  return caller;
}
