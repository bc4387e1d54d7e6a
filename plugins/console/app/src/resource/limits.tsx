import { classes } from '@/lib/classes';
import { count, money, percent } from '@/lib/format';
import { resource as texts } from '@/texts/resource';
import { Input, Select } from '@/ui/fields';
import { RowList } from '@/ui/row-list';
import { Time } from '@/ui/small';

/** A usage limit as the API has it. */
export interface UsageLimit {
  readonly type?: 'cost' | 'tokens' | 'requests' | undefined;
  readonly credit_limit: number;
  readonly alert_threshold?: number | null | undefined;
  readonly periodic_reset?: 'monthly' | 'weekly' | null | undefined;
  readonly periodic_reset_days?: number | null | undefined;
  readonly next_usage_reset_at?: string | null | undefined;
  readonly current_usage?: number | null | undefined;
}

/** A rate limit as the API has it. */
export interface RateLimit {
  readonly type: 'requests' | 'tokens';
  readonly unit: 'rps' | 'rpm' | 'rph' | 'rpd' | 'rpw';
  readonly value: number;
}

/** An amount of a limit, in its unit. */
export function amount(value: number, type: UsageLimit['type'] = 'cost'): string {
  return type === 'cost' ? money(value) : texts.usage[type](count(value), value);
}

function resetText(limit: UsageLimit): string {
  if (typeof limit.periodic_reset_days === 'number') return texts.usage.everyDays(limit.periodic_reset_days);
  return texts.usage.resets[limit.periodic_reset ?? ''];
}

interface BarProps {
  readonly used: number;
  readonly limit: number;
  readonly type?: UsageLimit['type'];
  /** The moment when the count begins anew. */
  readonly resets?: string | null | undefined;
  readonly alert?: number | null | undefined;
  /** In a row of a table: one line. */
  readonly small?: boolean;
}

/** The used and the remaining part of a limit, and its next reset. The words say what the colour says. */
export function UsageBar({ used, limit, type = 'cost', resets, alert, small = false }: BarProps) {
  const share = limit === 0 ? 1 : used / limit;
  const over = share >= 1;
  const near = !over && (share >= 0.8 || (typeof alert === 'number' && used >= alert));
  const label = texts.usage.usedOf(type === 'cost' ? money(used) : count(used), amount(limit, type));
  const left = over
    ? texts.usage.over
    : texts.usage.left(type === 'cost' ? money(limit - used) : count(limit - used));
  return (
    <div className={classes('grid gap-1', small ? 'min-w-44' : 'max-w-md')}>
      <div className="flex flex-wrap justify-between gap-x-3 text-xs tabular-nums">
        <span>{label}</span>
        <span className={over ? 'text-bad font-medium' : near ? 'text-warn font-medium' : 'text-soft'}>
          {left}
        </span>
      </div>
      <div
        role="meter"
        aria-label={label}
        aria-valuenow={Math.min(100, Math.round(share * 100))}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuetext={percent(share)}
        className="bg-raised border-line h-2 overflow-hidden rounded-full border"
      >
        <div
          className={classes('h-full', over ? 'bg-bad' : near ? 'bg-warn' : 'bg-accent')}
          style={{ width: `${Math.min(100, share * 100)}%` }}
        />
      </div>
      {!small && (
        <p className="text-soft text-xs">
          {resets ? (
            <>
              {texts.usage.resetsAt} <Time iso={resets} ago /> (<Time iso={resets} />)
            </>
          ) : (
            texts.usage.never
          )}
        </p>
      )}
    </div>
  );
}

/** Usage limits in words, with their bars. */
export function ShownLimits({
  limits,
  resets,
}: {
  readonly limits: readonly UsageLimit[];
  readonly resets?: string | null | undefined;
}) {
  if (limits.length === 0) return <span className="text-soft">{texts.usage.none}</span>;
  return (
    <div className="grid gap-3">
      {limits.map((limit, index) => (
        <div key={index}>
          <p>
            {amount(limit.credit_limit, limit.type)}, {resetText(limit)}
          </p>
          {typeof limit.current_usage === 'number' && (
            <UsageBar
              used={limit.current_usage}
              limit={limit.credit_limit}
              type={limit.type}
              alert={limit.alert_threshold}
              resets={limit.next_usage_reset_at ?? resets}
            />
          )}
        </div>
      ))}
    </div>
  );
}

export function ShownRates({ limits }: { readonly limits: readonly RateLimit[] | null | undefined }) {
  if (!limits?.length) return <span className="text-soft">{texts.rates.none}</span>;
  return (
    <ul>
      {limits.map(({ type, unit, value }) => (
        <li key={type + unit}>
          {texts.rates.each(count(value), texts.rates.types[type], texts.rates.units[unit])}
        </li>
      ))}
    </ul>
  );
}

interface EditorProps<T> {
  readonly id: string;
  readonly value: readonly T[];
  readonly onChange: (value: readonly T[]) => void;
  readonly disabled: boolean;
  readonly invalid: boolean;
}

const cell = 'grid gap-1 text-xs text-soft';
const numberOf = (text: string): number | null => (text === '' ? null : Number(text));

/** Makes usage limits; `most` is how many there may be. */
export function UsageEditor(props: EditorProps<UsageLimit> & { readonly most: number }) {
  const { id, value, onChange, disabled, invalid, most } = props;
  const words = texts.usage;
  return (
    <RowList<UsageLimit>
      {...{ value, onChange, disabled, most, texts: words }}
      fresh={() => ({ type: 'cost', credit_limit: Number.NaN, periodic_reset: 'monthly' })}
      className="flex flex-wrap items-end gap-2"
    >
      {(limit, index, put) => {
        const change = (patch: Partial<UsageLimit>): void => put({ ...limit, ...patch });
        const reset = typeof limit.periodic_reset_days === 'number' ? 'days' : (limit.periodic_reset ?? '');
        return (
          <>
            <label className={cell}>
              {words.amount}
              <Input
                type="number"
                min={1}
                step="any"
                required
                aria-invalid={invalid}
                disabled={disabled}
                className="w-28"
                id={index === 0 ? id : undefined}
                value={Number.isNaN(limit.credit_limit) ? '' : limit.credit_limit}
                onChange={(event) => change({ credit_limit: event.target.valueAsNumber })}
              />
            </label>
            <label className={cell}>
              {words.kind}
              <Select
                className="w-28"
                disabled={disabled}
                options={Object.entries(words.kinds)}
                value={limit.type ?? 'cost'}
                onChange={(event) => change({ type: event.target.value as UsageLimit['type'] })}
              />
            </label>
            <label className={cell}>
              {words.reset}
              <Select
                className="w-32"
                disabled={disabled}
                options={Object.entries(words.resets)}
                value={reset}
                onChange={({ target }) =>
                  change({
                    periodic_reset:
                      target.value === 'monthly' || target.value === 'weekly' ? target.value : null,
                    periodic_reset_days: target.value === 'days' ? 30 : null,
                  })
                }
              />
            </label>
            {reset === 'days' && (
              <label className={cell}>
                {words.days}
                <Input
                  type="number"
                  min={1}
                  max={365}
                  className="w-20"
                  disabled={disabled}
                  value={limit.periodic_reset_days ?? ''}
                  onChange={(event) => change({ periodic_reset_days: numberOf(event.target.value) ?? 1 })}
                />
              </label>
            )}
            <label className={cell}>
              {words.alert}
              <Input
                type="number"
                min={1}
                step="any"
                className="w-24"
                disabled={disabled}
                value={limit.alert_threshold ?? ''}
                onChange={(event) => change({ alert_threshold: numberOf(event.target.value) })}
              />
            </label>
          </>
        );
      }}
    </RowList>
  );
}

export function RatesEditor({ id, value, onChange, disabled, invalid }: EditorProps<RateLimit>) {
  const words = texts.rates;
  return (
    <RowList<RateLimit>
      {...{ value, onChange, disabled, texts: words }}
      fresh={() => ({ type: 'requests', unit: 'rpm', value: Number.NaN })}
      className="flex flex-wrap items-end gap-2"
    >
      {(limit, index, change) => (
        <>
          <label className={cell}>
            {words.value}
            <Input
              type="number"
              min={0}
              required
              aria-invalid={invalid}
              disabled={disabled}
              className="w-28"
              id={index === 0 ? id : undefined}
              value={Number.isNaN(limit.value) ? '' : limit.value}
              onChange={(event) => change({ ...limit, value: event.target.valueAsNumber })}
            />
          </label>
          <label className={cell}>
            {words.type}
            <Select
              className="w-28"
              disabled={disabled}
              options={Object.entries(words.types)}
              value={limit.type}
              onChange={(event) => change({ ...limit, type: event.target.value as RateLimit['type'] })}
            />
          </label>
          <label className={cell}>
            {words.unit}
            <Select
              className="w-28"
              disabled={disabled}
              options={Object.entries(words.units)}
              value={limit.unit}
              onChange={(event) => change({ ...limit, unit: event.target.value as RateLimit['unit'] })}
            />
          </label>
        </>
      )}
    </RowList>
  );
}
