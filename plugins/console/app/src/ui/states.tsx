import { Component, useEffect, useRef, type ReactNode } from 'react';
import { Link } from '@tanstack/react-router';
import { CircleAlert, Inbox, Lock, SearchX } from 'lucide-react';
import { ApiError, isMissing, isPassing } from '@/api/client';
import { useSession } from '@/api/session';
import type { Search } from '@/lib/address';
import { common } from '@/texts/common';
import { Button } from '@/ui/button';
import { Code } from '@/ui/small';

/** Something is on its way. */
export function Loading({ lines = 3 }: { readonly lines?: number }) {
  return (
    <div role="status" aria-label={common.state.loading} className="grid gap-2 p-4">
      {Array.from({ length: lines }, (_, index) => (
        <div key={index} className="bg-raised h-5 animate-pulse rounded" />
      ))}
    </div>
  );
}

interface FailedProps {
  readonly error: unknown;
  readonly onRetry?: () => void;
}

const retryMs = 5000;

/** Tries again every few seconds what may be back in a moment. */
function useRetries(error: unknown, onRetry: (() => void) | undefined): boolean {
  const retry = useRef(onRetry);
  retry.current = onRetry;
  const tries = onRetry !== undefined && isPassing(error);
  useEffect(() => {
    if (!tries) return undefined;
    const timer = setInterval(() => retry.current?.(), retryMs);
    return () => clearInterval(timer);
  }, [tries]);
  return tries;
}

/** Says what failed in the gateway's words, and what to do. */
export function Failed({ error, onRetry }: FailedProps) {
  const tries = useRetries(error, onRetry);
  const forbidden = error instanceof ApiError && error.status === 403;
  const title = forbidden ? common.state.forbidden : common.state.failed;
  return (
    <div role="alert" className="grid justify-items-center gap-2 p-8 text-center">
      {forbidden ? <Lock className="text-soft size-6" /> : <CircleAlert className="text-bad size-6" />}
      <p className="font-semibold">{title}</p>
      <p className="text-soft max-w-prose break-words">
        {error instanceof Error ? error.message : String(error)}
      </p>
      {forbidden && <p className="text-soft">{common.state.forbiddenHelp}</p>}
      {tries && <p className="text-soft">{common.state.again}</p>}
      {onRetry !== undefined && !forbidden && <Button onClick={onRetry}>{common.state.retry}</Button>}
    </div>
  );
}

export interface Wanted {
  /** `config`, in messages. */
  readonly noun: string;
  readonly id: string;
  /** Where the others are listed. */
  readonly list: { readonly to: string; readonly search?: Search };
  /** The audit trail says what became of it. */
  readonly audited?: boolean;
  /** Why it may not be there; default: it is deleted, not visible or mistyped. */
  readonly why?: string;
}

const leads =
  'border-line bg-panel hover:bg-raised inline-flex h-8 items-center rounded-md border px-3 font-medium';

/** Says that there is no record of the id in the address: no other try helps, and others are listed. */
export function Missing({ noun, id, list, audited = false, why = common.state.missingWhy }: Wanted) {
  const { may } = useSession();
  return (
    <div role="alert" className="grid justify-items-center gap-2 p-8 text-center">
      <SearchX className="text-soft size-6" />
      <p className="font-semibold">{common.state.missing(noun)}</p>
      <Code text={id} />
      <p className="text-soft max-w-prose">{why}</p>
      <div className="flex flex-wrap justify-center gap-2">
        <Link to={list.to} search={list.search ?? {}} className={leads}>
          {common.state.missingBack}
        </Link>
        {audited && may('audit_logs.list') && (
          <Link to="/audit" search={{ id }} className={leads}>
            {common.state.missingAudit}
          </Link>
        )}
      </div>
    </div>
  );
}

interface EmptyProps {
  readonly title?: string;
  /** What to do, in a sentence. */
  readonly text?: ReactNode;
  readonly action?: ReactNode;
}

export function Empty({ title = common.state.empty, text, action }: EmptyProps) {
  return (
    <div className="grid justify-items-center gap-2 p-8 text-center">
      <Inbox className="text-soft size-6" />
      <p className="font-semibold">{title}</p>
      {text !== undefined && <p className="text-soft max-w-prose">{text}</p>}
      {action}
    </div>
  );
}

interface BoundaryProps {
  readonly children: ReactNode;
  /** Another value begins anew: the page's address. */
  readonly place: string;
}

/** Keeps a fault of one page from taking the others with it. */
export class Boundary extends Component<BoundaryProps, { readonly error: unknown; readonly place: string }> {
  override state: { error: unknown; place: string } = { error: undefined, place: this.props.place };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  static getDerivedStateFromProps(props: BoundaryProps, state: { error: unknown; place: string }) {
    return props.place === state.place ? null : { error: undefined, place: props.place };
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (error === undefined) return this.props.children;
    return <Failed error={error} onRetry={() => this.setState({ error: undefined })} />;
  }
}

/** As much of a query as it takes to show its data or its state. */
export interface LoadedQuery<T> {
  readonly data: T | undefined;
  readonly error: unknown;
  readonly isPending: boolean;
  readonly errorUpdateCount: number;
  readonly refetch: () => unknown;
}

interface LoadedProps<T> {
  readonly query: LoadedQuery<T>;
  readonly lines?: number;
  /** What the query reads by the id in the address. */
  readonly wanted?: Wanted;
  readonly children: (data: T) => ReactNode;
}

/** The data of a query, or its state. Old data stays while it is read again, and is said to be old when that fails. */
export function Loaded<T>({ query, lines, wanted, children }: LoadedProps<T>) {
  const { data, error, isPending, errorUpdateCount } = query;
  const retry = (): void => void query.refetch();
  // A failure stays in sight while what failed is tried again.
  const failure = useRef(error);
  if (error) failure.current = error;
  if (data !== undefined) {
    return (
      <>
        {error ? <Old error={error} onRetry={retry} /> : null}
        {children(data)}
      </>
    );
  }
  const failed = error ?? (isPending && errorUpdateCount > 0 ? failure.current : undefined);
  if (wanted !== undefined && isMissing(failed)) return <Missing {...wanted} />;
  if (failed) return <Failed error={failed} onRetry={retry} />;
  return <Loading lines={lines ?? 3} />;
}

/** Says that the data below it is that of an earlier moment. */
function Old({ error, onRetry }: Required<FailedProps>) {
  useRetries(error, onRetry);
  return (
    <p role="alert" className="bg-warn-wash text-warn rounded px-3 py-2 break-words">
      {common.state.old(error instanceof Error ? error.message : String(error))}
    </p>
  );
}
