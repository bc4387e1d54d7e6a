import { useCallback } from 'react';
import { useNavigate, useSearch } from '@tanstack/react-router';

/** Search parameters of the address, as the router reads them: text that looks like JSON is its value. */
export type Search = Readonly<Record<string, unknown>>;

interface Address {
  readonly search: Search;
  /** Changes parameters of this page; undefined removes one. `replace`: the step is not one to go back to. */
  change(values: Search, options?: { readonly replace?: boolean }): void;
}

/** What a page shows stands in its address, so that each view is a link. */
export function useAddress(): Address {
  const search: Search = useSearch({ strict: false });
  const navigate = useNavigate();
  const change = useCallback(
    (values: Search, { replace = false }: { readonly replace?: boolean } = {}) =>
      void navigate({ to: '.', search: (before: Search) => without({ ...before, ...values }), replace }),
    [navigate],
  );
  return { search, change };
}

/** The parameters that say something. */
export function without(search: Search): Search {
  return Object.fromEntries(
    Object.entries(search).filter(([, value]) => value !== undefined && value !== ''),
  );
}

/** A parameter as the text that it was. */
export function textOf(value: unknown): string | undefined {
  if (value === undefined || value === null || value === '') return undefined;
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** The page of a list that the address names, from 0: there it counts from 1, and without one it is the first. */
export function pageOf(text: string | undefined): number {
  return Math.max(0, Math.trunc(Number(text ?? '1') || 1) - 1);
}

type Texts = Readonly<Record<string, string | undefined>>;

/** The parameters of the address as texts, and the function that changes some of them. */
export function useAddressTexts(): [texts: Texts, change: Address['change']] {
  const { search, change } = useAddress();
  return [Object.fromEntries(Object.entries(search).map(([name, value]) => [name, textOf(value)])), change];
}
