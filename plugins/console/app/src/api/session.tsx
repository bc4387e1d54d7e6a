import { createContext, useCallback, useContext, useEffect, useMemo, useState, type ReactNode } from 'react';
import { onlineManager, useQueryClient } from '@tanstack/react-query';
import { facts, type PageSession } from '@/api/facts';
import { api, ApiError, dataOf, json, send, setCsrf, whenSessionEnds } from '@/api/client';
import { forgetKept, keepFor } from '@/lib/kept';
import type { operations } from '@/api/schema.gen';
import { common } from '@/texts/common';

/** The signed-in caller, as `GET /me` shows it. */
export type Caller = operations['caller.get']['responses'][200]['content']['application/json'];

/** How the gateway answers a sign-out. */
interface SignedOut {
  /** Page of the identity provider that ends its session as well. */
  readonly next?: string;
  /** The provider does not say where its session ends. */
  readonly provider_away?: boolean;
}

interface SessionState {
  /** Null: nobody is signed in. */
  readonly caller: Caller | null;
  /** The session was ended by the gateway, not by the user; the caller is still the last one. */
  readonly ended: boolean;
  /** What signing out could not do, for the user; undefined when it did all. */
  readonly left: string | undefined;
  /** Another number is another user: nothing of the one before may stay on the page. */
  readonly visit: number;
  signIn(credential: string): Promise<void>;
  signOut(): Promise<void>;
  /** Whether the caller holds one of these scopes. What it may not do is not shown; the gateway refuses it all the same. */
  may(...scopes: readonly string[]): boolean;
}

const Context = createContext<SessionState | undefined>(undefined);

/** The caller who is signed in as the page begins; null for none. Rejects when the gateway cannot say it now. */
export async function firstCaller(): Promise<Caller | null> {
  try {
    const session =
      facts.session ?? (await json<{ session: PageSession | null }>('/console/session')).session;
    setCsrf(session?.csrf);
    if (session === null) return null;
    const caller = await dataOf(api.GET('/me'));
    keepFor(caller);
    return caller;
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return null;
    throw error;
  }
}

interface SessionProviderProps {
  /** The caller who was signed in when the page began. */
  readonly first: Caller | null;
  readonly children: ReactNode;
}

export function SessionProvider({ first, children }: SessionProviderProps) {
  const [caller, setCaller] = useState(first);
  const [ended, setEnded] = useState(false);
  const [visit, setVisit] = useState(0);
  const [left, setLeft] = useState<string>();
  const queries = useQueryClient();

  useEffect(() => {
    whenSessionEnds(() => {
      setCsrf(undefined);
      setEnded(true);
      // What the open page would ask meanwhile waits until somebody has signed in.
      onlineManager.setOnline(false);
    });
  }, []);

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
      keepFor(found);
      onlineManager.setOnline(true);
      setEnded(false);
      setLeft(undefined);
      setCaller(found);
      // The open page goes on for somebody who may see all that it shows; for others it begins anew.
      if (caller !== null && seesAllOf(found, caller)) return queries.invalidateQueries();
      setVisit((before) => before + 1);
      queries.clear();
    },
    [caller, queries],
  );

  const signOut = useCallback(async (): Promise<void> => {
    // First: what is asked meanwhile and refused does not tell the user that the session has ended.
    setCsrf(undefined);
    let over: SignedOut = {};
    let fault: string | undefined;
    try {
      over = await json<SignedOut>('/console/session', { method: 'DELETE' });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      fault = common.signIn.notEnded;
    }
    forgetKept();
    queries.clear();
    setLeft(fault ?? (over.provider_away === true ? common.signIn.providerAway : undefined));
    setCaller(null);
    // The session here is over, whatever becomes of that page.
    if (over.next !== undefined) location.assign(over.next);
  }, [queries]);

  const state = useMemo((): SessionState => {
    const held = new Set(caller?.scopes ?? []);
    const may = (...scopes: readonly string[]): boolean => scopes.some((scope) => held.has(scope));
    return { caller, ended, left, visit, signIn, signOut, may };
  }, [caller, ended, left, visit, signIn, signOut]);
  return <Context.Provider value={state}>{children}</Context.Provider>;
}

export function useSession(): SessionState {
  const state = useContext(Context);
  if (state === undefined) throw new Error('The session is used outside of its provider.');
  return state;
}

/** Whether a caller may see whatever the other one may. */
function seesAllOf(caller: Caller, other: Caller): boolean {
  const held = new Set(caller.scopes);
  return (
    caller.organisation_id === other.organisation_id &&
    (isOfOrganisation(caller) || (!isOfOrganisation(other) && caller.workspace_id === other.workspace_id)) &&
    other.scopes.every((scope) => held.has(scope))
  );
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
