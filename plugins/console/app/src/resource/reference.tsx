import { useId, useState } from 'react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Command } from 'cmdk';
import { Popover } from 'radix-ui';
import { ChevronsUpDown, X } from 'lucide-react';
import { useSession } from '@/api/session';
import type { Finder, Option } from '@/resource/declaration';
import { common } from '@/texts/common';
import { resource as texts } from '@/texts/resource';
import { Button, IconButton } from '@/ui/button';
import { Badge } from '@/ui/small';

interface ReferenceProps {
  readonly id: string;
  readonly label: string;
  readonly value: string | readonly string[];
  readonly onChange: (value: string | readonly string[]) => void;
  readonly several?: boolean;
  readonly find: Finder;
  readonly none?: string | undefined;
  readonly disabled?: boolean;
  readonly 'aria-describedby'?: string | undefined;
  readonly 'aria-invalid'?: boolean;
}

/** What a list has for a text. Nothing is asked for callers who may not read it, nor while it is not `wanted`. */
export function useReferences({ name, scopes, find }: Finder, text: string, wanted: boolean) {
  const mayList = useSession().may(...scopes);
  const query = useQuery({
    queryKey: ['reference', name, text],
    queryFn: () => find(text),
    enabled: wanted && mayList,
    placeholderData: keepPreviousData,
  });
  return { ...query, mayList };
}

/**
 * Chooses one or several other records by typing a part of their names, or what names one when the caller may not read
 * their list.
 */
export function Reference(props: ReferenceProps) {
  const { id, label, value, onChange, several = false, find, none, disabled = false, ...aria } = props;
  const [open, setOpen] = useState(false);
  const [search, setSearch] = useState('');
  const chosen = [value].flat().filter((one) => one !== '');
  // Unless there is a name to show or the list is opened, nothing needs it.
  const found = useReferences(find, search, open || chosen.length > 0);
  const typed = search.trim();
  const options = found.mayList ? found.data : typed === '' ? [] : [{ value: typed, text: typed }];
  const hint = useId();
  const [known, setKnown] = useState<Readonly<Record<string, string>>>({});
  const nameOf = (one: string): string =>
    known[one] ?? found.data?.find((option) => option.value === one)?.text ?? one;
  const choose = (option: Option): void => {
    setKnown((before) => ({ ...before, [option.value]: option.text }));
    if (several) onChange([...chosen.filter((one) => one !== option.value), option.value]);
    else onChange(option.value);
    setOpen(false);
    setSearch('');
  };
  const remove = (one: string): void => onChange(several ? chosen.filter((other) => other !== one) : '');
  const shown = !several && chosen[0] !== undefined ? nameOf(chosen[0]) : undefined;
  return (
    <div className="flex flex-wrap items-center gap-1.5">
      {several &&
        chosen.map((one) => (
          <span key={one} className="inline-flex items-center">
            <Badge>{nameOf(one)}</Badge>
            {!disabled && (
              <IconButton
                label={texts.reference.clearOne(nameOf(one))}
                onClick={() => remove(one)}
                className="h-6 w-6"
              >
                <X className="size-3" />
              </IconButton>
            )}
          </span>
        ))}
      <Popover.Root open={open} onOpenChange={setOpen}>
        <Popover.Trigger asChild>
          <Button
            id={id}
            disabled={disabled}
            aria-label={`${label}: ${shown ?? (several ? texts.reference.add : (none ?? texts.reference.choose))}`}
            aria-haspopup="dialog"
            aria-expanded={open}
            aria-describedby={aria['aria-describedby']}
            className={several ? '' : 'min-w-0 grow justify-between font-normal'}
          >
            <span className={shown === undefined ? 'text-soft truncate' : 'truncate'}>
              {shown ?? (several ? texts.reference.add : (none ?? texts.reference.choose))}
            </span>
            <ChevronsUpDown className="text-soft size-3.5" aria-hidden />
          </Button>
        </Popover.Trigger>
        <Popover.Portal>
          <Popover.Content
            align="start"
            sideOffset={4}
            aria-label={label}
            className="border-line bg-panel z-60 w-80 rounded-lg border shadow-xl"
          >
            <Command label={label} shouldFilter={false} loop>
              <Command.Input
                value={search}
                onValueChange={setSearch}
                placeholder={found.mayList ? texts.reference.search : texts.reference.type[find.by]}
                aria-describedby={found.mayList ? undefined : hint}
                className="border-line h-9 w-full border-b bg-transparent px-3 outline-none"
              />
              {!found.mayList && (
                <p id={hint} className="text-soft px-3 pt-2 text-xs">
                  {texts.reference.unlisted[find.by]}
                </p>
              )}
              <Command.List label={label} className="max-h-64 overflow-y-auto p-1">
                {found.isLoading && <p className="text-soft p-3">{common.state.loading}</p>}
                {found.error !== null && <p className="text-bad p-3">{found.error.message}</p>}
                {found.data !== undefined && (
                  <Command.Empty className="text-soft p-3">{texts.reference.none}</Command.Empty>
                )}
                {options?.map((option) => (
                  <Command.Item
                    key={option.value}
                    value={option.value}
                    onSelect={() => choose(option)}
                    className="data-[selected=true]:bg-accent-wash data-[selected=true]:text-accent flex cursor-pointer justify-between gap-3 rounded px-2 py-1.5"
                  >
                    <span className="truncate">{option.text}</span>
                    {option.note !== undefined && (
                      <span className="text-soft shrink-0 text-xs">{option.note}</span>
                    )}
                  </Command.Item>
                ))}
              </Command.List>
            </Command>
          </Popover.Content>
        </Popover.Portal>
      </Popover.Root>
      {!several && chosen.length > 0 && !disabled && (
        <IconButton label={texts.reference.clear} onClick={() => onChange('')}>
          <X className="size-4" />
        </IconButton>
      )}
    </div>
  );
}
