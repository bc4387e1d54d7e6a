import { Switch as Base } from 'radix-ui';

interface SwitchProps {
  readonly label: string;
  readonly checked: boolean;
  readonly onChange: (checked: boolean) => void;
}

/** Something that is on or off at once, with its name. */
export function Switch({ label, checked, onChange }: SwitchProps) {
  return (
    <label className="flex h-8 items-center gap-2 font-medium">
      <Base.Root
        aria-label={label}
        checked={checked}
        onCheckedChange={onChange}
        className="bg-raised border-soft data-[state=checked]:bg-accent data-[state=checked]:border-accent h-5 min-h-0 w-9 shrink-0 rounded-full border p-0.5 transition-colors"
      >
        <Base.Thumb className="bg-soft data-[state=checked]:bg-accent-ink block size-3.5 rounded-full transition-transform data-[state=checked]:translate-x-4" />
      </Base.Root>
      <span aria-hidden>{label}</span>
    </label>
  );
}
