import { Link } from '@tanstack/react-router';
import { useSession } from '@/api/session';
import { resource } from '@/texts/resource';
import { settings as texts } from '@/texts/settings';
import { Sentence, Time } from '@/ui/small';

interface LastChangedProps {
  readonly at: string | null;
  /** The sentence for settings that nobody has changed. */
  readonly never: string;
  /** `resource_type` in the audit trail, and whose: empty for the organisation's. */
  readonly kind: string;
  readonly id?: string;
}

/** When settings were changed, with the way to their entries in the audit trail. */
export function LastChanged({ at, never, kind, id }: LastChangedProps) {
  const { may } = useSession();
  return (
    <p className="text-soft flex flex-wrap gap-x-3">
      {at === null ? (
        never
      ) : (
        <span>
          <Sentence text={texts.changed} parts={[<Time iso={at} />]} />
        </span>
      )}
      {may('audit_logs.list') && (
        <Link
          to="/audit"
          search={{ resource: kind, ...(id !== undefined && { id }) }}
          className="text-accent underline"
        >
          {resource.audit}
        </Link>
      )}
    </p>
  );
}
