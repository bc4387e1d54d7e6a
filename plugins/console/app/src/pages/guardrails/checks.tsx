import { useState } from 'react';
import { useQuery } from '@tanstack/react-query';
import { Plus, Trash2 } from 'lucide-react';
import { api, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { Parameters, type Schema } from '@/pages/guardrails/parameters';
import { guardrails as texts } from '@/texts/guardrails';
import { Button, IconButton } from '@/ui/button';
import { Dialog } from '@/ui/dialog';
import { Checkbox, Field, Input, Select, Textarea } from '@/ui/fields';
import { Badge } from '@/ui/small';
import { Loaded } from '@/ui/states';

export type Guardrail = operations['guardrails.get']['responses'][200]['content']['application/json'];
export type Check = Guardrail['checks'][number];

/** The checks that this gateway offers. */
function useCatalogue() {
  return useQuery({
    queryKey: ['guardrail-checks'],
    staleTime: 300_000,
    queryFn: async () => (await dataOf(api.GET('/guardrail-checks'))).data,
  });
}
type Offered = NonNullable<ReturnType<typeof useCatalogue>['data']>[number];

interface ChecksProps {
  readonly value: readonly Check[];
  readonly onChange: (value: readonly Check[]) => void;
  readonly disabled: boolean;
}

/** The checks of a guardrail with their parameters, and the catalogue from which they are chosen. */
export function Checks({ value, onChange, disabled }: ChecksProps) {
  const [choosing, setChoosing] = useState(false);
  const catalogue = useCatalogue();
  const change = (index: number, patch: Partial<Check>): void =>
    onChange(value.map((one, at) => (at === index ? { ...one, ...patch } : one)));
  return (
    <div className="grid gap-3">
      {value.length === 0 && <p className="text-soft">{texts.none}</p>}
      <Loaded query={catalogue}>
        {(offered) =>
          value.map((check, index) => (
            <OneCheck
              key={`${index} ${check.id}`}
              check={check}
              offered={offered.find(({ id }) => id === check.id)}
              disabled={disabled}
              onChange={(patch) => change(index, patch)}
              onRemove={() => onChange(value.filter((_, at) => at !== index))}
            />
          ))
        }
      </Loaded>
      {!disabled && (
        <div>
          <Button onClick={() => setChoosing(true)}>
            <Plus className="size-4" />
            {texts.add}
          </Button>
        </div>
      )}
      {choosing && (
        <Catalogue
          offered={catalogue.data ?? []}
          onClose={() => setChoosing(false)}
          onChoose={(id) => {
            setChoosing(false);
            onChange([...value, { id, is_enabled: true, parameters: {} }]);
          }}
        />
      )}
    </div>
  );
}

interface OneCheckProps {
  readonly check: Check;
  readonly offered: Offered | undefined;
  readonly disabled: boolean;
  readonly onChange: (patch: Partial<Check>) => void;
  readonly onRemove: () => void;
}

function OneCheck({ check, offered, disabled, onChange, onRemove }: OneCheckProps) {
  const { id, is_enabled: isEnabled, parameters = {}, on_error: onError, timeout_ms: timeout } = check;
  return (
    <section aria-label={id} className="border-line grid gap-3 rounded-md border p-3">
      <div className="flex flex-wrap items-center gap-2">
        <h4 className="font-mono text-xs font-semibold">{id}</h4>
        {offered && <Marks check={offered} />}
        <span className="grow" />
        <Checkbox
          label={texts.onShort}
          aria-label={texts.on(id)}
          disabled={disabled}
          checked={isEnabled}
          onChange={({ target }) => onChange({ is_enabled: target.checked })}
        />
        {!disabled && (
          <IconButton label={texts.remove(id)} onClick={onRemove}>
            <Trash2 className="size-4" />
          </IconButton>
        )}
      </div>
      {offered === undefined ? (
        <>
          <p className="text-warn">{texts.unknown}</p>
          <Textarea
            aria-label={texts.parameters}
            readOnly
            className="font-mono text-xs"
            value={JSON.stringify(parameters, null, 2)}
          />
        </>
      ) : (
        <>
          <p className="text-soft">{offered.description}</p>
          <Parameters
            // The document has it as an object of any members.
            schema={offered.parameters as Schema}
            value={parameters}
            disabled={disabled}
            onChange={(next) => onChange({ parameters: { ...next } })}
          />
        </>
      )}
      <details>
        <summary className="text-soft cursor-pointer">{texts.more}</summary>
        <div className="grid gap-3 pt-2 sm:grid-cols-2">
          <Field label={texts.onError}>
            {(control) => (
              <Select
                {...control}
                disabled={disabled}
                value={onError ?? ''}
                options={Object.entries(texts.onErrors)}
                onChange={({ target }) =>
                  onChange({ on_error: (target.value || undefined) as Check['on_error'] & string })
                }
              />
            )}
          </Field>
          <Field label={texts.timeout}>
            {(control) => (
              <Input
                {...control}
                type="number"
                min={1}
                max={120_000}
                disabled={disabled}
                placeholder={String(offered?.timeout_ms ?? '')}
                value={timeout ?? ''}
                onChange={({ target }) =>
                  onChange({ timeout_ms: (target.value === '' ? undefined : Number(target.value)) as number })
                }
              />
            )}
          </Field>
        </div>
      </details>
    </section>
  );
}

function Marks({ check: { phases, changes } }: { readonly check: Offered }) {
  return (
    <span className="flex gap-1">
      {phases.map((phase) => (
        <Badge key={phase}>{texts.phases[phase]}</Badge>
      ))}
      {changes && <Badge tone="accent">{texts.changes}</Badge>}
    </span>
  );
}

interface CatalogueProps {
  readonly offered: readonly Offered[];
  readonly onChoose: (id: string) => void;
  readonly onClose: () => void;
}

function Catalogue({ offered, onChoose, onClose }: CatalogueProps) {
  const [search, setSearch] = useState('');
  const wanted = search.trim().toLowerCase();
  // Those that need nothing of others come first.
  const found = offered
    .filter(({ id, description }) => `${id} ${description}`.toLowerCase().includes(wanted))
    .sort((left, right) => Number(right.id.startsWith('default.')) - Number(left.id.startsWith('default.')));
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} place="wide" title={texts.choose}>
      <Input
        autoFocus
        type="search"
        aria-label={texts.find}
        placeholder={texts.find}
        value={search}
        onChange={({ target }) => setSearch(target.value)}
        onKeyDown={(event) => {
          const [first] = found;
          if (event.key !== 'Enter') return;
          event.preventDefault();
          if (first !== undefined) onChoose(first.id);
        }}
      />
      <ul className="grid max-h-[60dvh] gap-1 overflow-y-auto">
        {found.map((check) => (
          <li key={check.id}>
            <button
              type="button"
              className="hover:bg-raised grid w-full gap-0.5 rounded-md p-2 text-left"
              onClick={() => onChoose(check.id)}
            >
              <span className="flex items-center gap-2">
                <span className="font-mono text-xs font-semibold">{check.id}</span>
                <Marks check={check} />
              </span>
              <span className="text-soft">{check.description}</span>
            </button>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
