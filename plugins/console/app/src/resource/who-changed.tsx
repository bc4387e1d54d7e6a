import { Link } from '@tanstack/react-router';
import { ScrollText } from 'lucide-react';
import { useSession } from '@/api/session';
import { classes } from '@/lib/classes';
import { resource as texts } from '@/texts/resource';

/** Kinds of audit entries that carry the id of a record of another kind. */
const parts: Readonly<Record<string, readonly string[]>> = {
  integrations: ['integration_models', 'integration_workspaces'],
  mcp_integrations: ['mcp_integration_capabilities', 'mcp_integration_workspaces'],
  mcp_servers: ['mcp_server_capabilities', 'mcp_server_user_access', 'mcp_server_connections'],
  workspaces: ['workspace_settings'],
};

/** The kind of a record in the audit trail, with the kinds of its parts. */
export function auditKinds(kind: string): string {
  return [kind, ...(parts[kind] ?? [])].join(',');
}

/** The kind of records whose ids entries of this kind carry. */
export function wholeOf(kind: string): string {
  return Object.keys(parts).find((whole) => parts[whole]?.includes(kind) === true) ?? kind;
}

interface WhoChangedProps {
  /** `resource_type` in the audit trail. */
  readonly kind: string;
  readonly id: string;
  /** As a sign alone, in the row of a table. */
  readonly small?: boolean;
}

/** Leads to the audit entries of a record and its parts, for who may see them. */
export function WhoChanged({ kind, id, small = false }: WhoChangedProps) {
  const { may } = useSession();
  if (!may('audit_logs.list')) return null;
  return (
    <Link
      to="/audit"
      search={{ resource: auditKinds(kind), id }}
      {...(small && { 'aria-label': texts.audit, title: texts.audit })}
      className={classes(
        'hover:bg-raised border-line inline-flex items-center gap-1.5 rounded-md border font-medium',
        small ? 'h-7 px-2' : 'h-8 px-3',
      )}
    >
      <ScrollText className="size-4" aria-hidden />
      {!small && texts.audit}
    </Link>
  );
}
