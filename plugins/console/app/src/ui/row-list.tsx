import type { ReactNode } from 'react';
import { Plus, Trash2 } from 'lucide-react';
import { Button, IconButton } from '@/ui/button';

interface RowListProps<T> {
  readonly value: readonly T[];
  readonly onChange: (value: readonly T[]) => void;
  readonly disabled: boolean;
  /** A row that is added. */
  readonly fresh: () => T;
  readonly texts: {
    readonly add: string;
    /** Names the row, from 1, where rows are told apart by their numbers. */
    readonly remove: string | ((row: number) => string);
    /** In place of rows. */
    readonly none?: string;
  };
  /** How many rows there may be, and have to be. */
  readonly most?: number;
  readonly least?: number;
  /** The looks of a row. */
  readonly className: string;
  /** The controls of a row; `change` puts another one in its place. */
  readonly children: (one: T, index: number, change: (one: T) => void) => ReactNode;
}

/** Rows of controls, which the user adds and takes away. */
export function RowList<T>(props: RowListProps<T>) {
  const { value, onChange, disabled, fresh, texts, className, children } = props;
  const { most = Infinity, least = 0 } = props;
  return (
    <div className="grid gap-2">
      {value.length === 0 && texts.none !== undefined && <p className="text-soft">{texts.none}</p>}
      {value.map((one, index) => (
        <div key={index} className={className}>
          {children(one, index, (next) => onChange(value.map((old, at) => (at === index ? next : old))))}
          {!disabled && value.length > least && (
            <IconButton
              label={typeof texts.remove === 'string' ? texts.remove : texts.remove(index + 1)}
              onClick={() => onChange(value.filter((_, at) => at !== index))}
            >
              <Trash2 className="size-4" />
            </IconButton>
          )}
        </div>
      ))}
      {!disabled && value.length < most && (
        <div>
          <Button onClick={() => onChange([...value, fresh()])}>
            <Plus className="size-4" />
            {texts.add}
          </Button>
        </div>
      )}
    </div>
  );
}
