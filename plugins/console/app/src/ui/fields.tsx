import {
  useId,
  useState,
  type InputHTMLAttributes,
  type ReactNode,
  type SelectHTMLAttributes,
  type ComponentProps,
} from 'react';
import { classes } from '@/lib/classes';

const box =
  'w-full rounded-md border border-line bg-panel px-2.5 text-ink placeholder:text-soft aria-invalid:border-bad disabled:opacity-60';

interface FieldProps {
  readonly label: string;
  /** What it means, in a sentence below. */
  readonly help?: ReactNode;
  /** The fault of its value, in a sentence. */
  readonly fault?: string | undefined;
  readonly className?: string;
  /** The control; it gets these properties. */
  readonly children: (control: {
    readonly id: string;
    readonly 'aria-describedby': string | undefined;
    readonly 'aria-invalid': boolean;
  }) => ReactNode;
}

interface NotesProps extends Pick<FieldProps, 'help' | 'fault'> {
  /** That of the control, or of the group. */
  readonly id: string;
}

/** The ids of the notes that are there, for `aria-describedby`. */
export function describedBy({ id, help, fault }: NotesProps): string | undefined {
  const ids = [
    ...(help === undefined ? [] : [`${id}-help`]),
    ...(fault === undefined ? [] : [`${id}-fault`]),
  ];
  return ids.length > 0 ? ids.join(' ') : undefined;
}

/** The help of a control and its fault, below it. */
export function Notes({ id, help, fault }: NotesProps) {
  return (
    <>
      {help !== undefined && (
        <p id={`${id}-help`} className="text-soft text-xs">
          {help}
        </p>
      )}
      {fault !== undefined && (
        <p id={`${id}-fault`} role="alert" className="text-bad text-xs">
          {fault}
        </p>
      )}
    </>
  );
}

/** A labelled control with its help and its fault. */
export function Field({ label, help, fault, className, children }: FieldProps) {
  const id = useId();
  return (
    <div className={classes('grid content-start gap-1', className)}>
      <label htmlFor={id} className="font-medium">
        {label}
      </label>
      {children({
        id,
        'aria-describedby': describedBy({ id, help, fault }),
        'aria-invalid': fault !== undefined,
      })}
      <Notes {...{ id, help, fault }} />
    </div>
  );
}

export function Input({ className, ...rest }: InputHTMLAttributes<HTMLInputElement>) {
  return <input {...rest} className={classes(box, 'h-8', className)} />;
}

export function Textarea({ className, ...rest }: ComponentProps<'textarea'>) {
  return <textarea {...rest} className={classes(box, 'min-h-20 py-1.5', className)} />;
}

interface SelectProps extends SelectHTMLAttributes<HTMLSelectElement> {
  /** Values with their texts. */
  readonly options: readonly (readonly [value: string, text: string])[];
}

/** The system's own list: it works with every keyboard and reader. */
export function Select({ options, className, ...rest }: SelectProps) {
  return (
    <select {...rest} className={classes(box, 'h-8', className)}>
      {options.map(([value, text]) => (
        <option key={value} value={value}>
          {text}
        </option>
      ))}
    </select>
  );
}

interface CheckboxProps extends Omit<InputHTMLAttributes<HTMLInputElement>, 'type'> {
  readonly label: ReactNode;
}

export function Checkbox({ label, className, ...rest }: CheckboxProps) {
  return (
    <label className={classes('flex min-h-7 items-center gap-2', className)}>
      <input {...rest} type="checkbox" className="accent-accent size-4" />
      <span>{label}</span>
    </label>
  );
}

interface SwitchProps extends Omit<CheckboxProps, 'checked' | 'onChange'> {
  readonly checked: boolean;
  /** Stores it. It shows what was chosen at once, and what is stored when this rejects. */
  readonly onSwitch: (checked: boolean) => Promise<unknown>;
}

/** A checkbox whose choice is stored when it is made. */
export function Switch({ checked, onSwitch, disabled, ...rest }: SwitchProps) {
  const [wanted, setWanted] = useState<boolean>();
  const change = async (next: boolean): Promise<void> => {
    setWanted(next);
    // The page says why it was refused.
    await onSwitch(next).catch(() => undefined);
    setWanted(undefined);
  };
  return (
    <Checkbox
      {...rest}
      disabled={disabled === true || wanted !== undefined}
      checked={wanted ?? checked}
      onChange={({ target }) => void change(target.checked)}
    />
  );
}
