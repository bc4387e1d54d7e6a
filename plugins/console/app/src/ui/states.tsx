import { Component, type ReactNode } from 'react';
import { CircleAlert, Inbox, Lock } from 'lucide-react';
import { ApiError } from '@/api/client';
import { common } from '@/texts/common';
import { Button } from '@/ui/button';

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

/** Says what failed in the gateway's words, and what to do. */
export function Failed({ error, onRetry }: FailedProps) {
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
      {onRetry !== undefined && !forbidden && <Button onClick={onRetry}>{common.state.retry}</Button>}
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

interface LoadedProps<T> {
  readonly query: { data: T | undefined; error: unknown; isPending: boolean; refetch: () => unknown };
  readonly lines?: number;
  readonly children: (data: T) => ReactNode;
}

/** The data of a query, or its state. Old data stays while it is read again. */
export function Loaded<T>({ query, lines, children }: LoadedProps<T>) {
  if (query.data !== undefined) return children(query.data);
  if (query.error) return <Failed error={query.error} onRetry={() => void query.refetch()} />;
  return <Loading lines={lines ?? 3} />;
}
