import { useQuery } from '@tanstack/react-query';
import { api, dataOf } from '@/api/client';
import { useSession } from '@/api/session';
import { resource } from '@/texts/resource';
import { Input, Select } from '@/ui/fields';
import { RowList } from '@/ui/row-list';

/** A field of a record whose value comes from a secret manager. */
export interface Mapping {
  readonly target_field: string;
  readonly secret_reference_id: string;
  readonly secret_key?: string | null | undefined;
}

interface MappingsProps {
  /** Fields that a secret may fill. */
  readonly targets: readonly string[];
  /** Beginning of fields whose name the user says: `configurations.custom_headers.`. */
  readonly open?: { readonly prefix: string; readonly text: string; readonly name: string };
  readonly value: readonly Mapping[];
  readonly onChange: (value: readonly Mapping[]) => void;
  readonly disabled: boolean;
}

const texts = resource.mapping;

/** Which fields come from which secret references. */
export function SecretMappings({ targets, open, value, onChange, disabled }: MappingsProps) {
  const { may } = useSession();
  const references = useQuery({
    queryKey: ['secret-references', 'choice'],
    enabled: may('secret_references.list'),
    queryFn: () => dataOf(api.GET('/secret-references', { params: { query: { page_size: 100 } } })),
  });
  const known = references.data?.data ?? [];
  const isOpen = (target: string): boolean =>
    open !== undefined && target.startsWith(open.prefix) && !targets.includes(target);
  const optionsFor = (target: string) => [
    ...targets.map((one) => [one, one] as const),
    ...(open === undefined ? [] : [[open.prefix, open.text] as const]),
    ...(targets.includes(target) || isOpen(target) ? [] : [[target, target] as const]),
  ];
  const [first = open?.prefix ?? ''] = targets;
  return (
    <RowList<Mapping>
      {...{ value, onChange, disabled, texts }}
      fresh={() => ({ target_field: first, secret_reference_id: known[0]?.id ?? '' })}
      className="grid grid-cols-[1fr_1fr_1fr_auto] gap-2"
    >
      {(one, index, change) => {
        const { target_field: target, secret_reference_id: reference, secret_key: member } = one;
        return (
          <>
            <div className="grid gap-1">
              <Select
                aria-label={texts.target(index + 1)}
                disabled={disabled}
                value={isOpen(target) ? open?.prefix : target}
                options={optionsFor(target)}
                onChange={(event) => change({ ...one, target_field: event.target.value })}
              />
              {open !== undefined && isOpen(target) && (
                <Input
                  aria-label={`${open.name} ${index + 1}`}
                  placeholder={open.name}
                  disabled={disabled}
                  required
                  value={target.slice(open.prefix.length)}
                  onChange={(event) => change({ ...one, target_field: open.prefix + event.target.value })}
                />
              )}
            </div>
            <Select
              aria-label={texts.reference(index + 1)}
              disabled={disabled}
              value={reference}
              options={[
                ...(known.some(({ id }) => id === reference) ? [] : [[reference, reference || '–'] as const]),
                ...known.map(({ id, name }) => [id, name] as const),
              ]}
              onChange={(event) => change({ ...one, secret_reference_id: event.target.value })}
            />
            <Input
              aria-label={texts.member(index + 1)}
              placeholder={texts.memberHint}
              disabled={disabled}
              value={member ?? ''}
              onChange={(event) => change({ ...one, secret_key: event.target.value || null })}
            />
          </>
        );
      }}
    </RowList>
  );
}

/** The fields and their references, to read. */
export function ShownMappings({ mappings }: { readonly mappings: readonly Mapping[] }) {
  if (mappings.length === 0) return texts.none;
  return mappings.map(({ target_field: target, secret_reference_id: reference }) => (
    <p key={target} className="font-mono text-xs">
      {target}: {reference}
    </p>
  ));
}
