import type { ExactAmount } from './exact-amount.ts';

/** The providers whose files of costs are read. */
export const billers = ['openai', 'anthropic', 'bedrock'] as const;
/** One of them; also the kind of provider in rows of requests. */
export type Biller = (typeof billers)[number];

/** One amount that a provider billed. */
export interface BilledCost {
  /** `YYYY-MM-DD` in UTC. */
  readonly day: string;
  /** Billed item in the provider's own words: a model, or something else (`Tax`, `web_search`). */
  readonly name: string;
  readonly amount: ExactAmount;
}

const seconds = /^\d{9,11}$/;
const moment = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?) ?(Z|UTC|[+-]\d\d:?\d\d)?)?$/i;

/** The day in UTC of seconds since the epoch, of a date, or of a date with a time (UTC unless it says otherwise). */
export function dayOf(text: string): string | undefined {
  if (seconds.test(text)) return new Date(Number(text) * 1000).toISOString().slice(0, 10);
  const [, date, time = '00:00', zone = 'Z'] = moment.exec(text.trim()) ?? [];
  if (date === undefined) return undefined;
  const at = Date.parse(`${date}T${time}${/^utc$/i.test(zone) ? 'Z' : zone}`);
  if (Number.isNaN(at) || !isDay(date)) return undefined;
  return new Date(at).toISOString().slice(0, 10);
}

/** Whether `YYYY-MM-DD` is a day of the calendar. */
export function isDay(text: string): boolean {
  const at = Date.parse(`${text}T00:00Z`);
  return /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(at) && new Date(at).toISOString().startsWith(text);
}

/** The model of an item of OpenAI: `gpt-4o-mini-2024-07-18, cached input` is for `gpt-4o-mini-2024-07-18`. */
export function modelOfLineItem(item: string): string {
  const comma = item.lastIndexOf(', ');
  return comma > 0 ? item.slice(0, comma) : item;
}

/** A region in front of a usage type: `USE1-`, `EUC1-`, `EU-`. */
const region = /^(?:[A-Z]{2,4}\d|EU|US)-/;
/** Where the name of the model ends: the kind of token, or the way in which it was served. */
const afterModel =
  /[-_](?:mantle|cross-region|input|output|cache|batch|flex|priority|latency|provisioned|ondemand|on-demand|custom|prompt)\b.*$/i;

/** The model of a usage type of Amazon Bedrock: `USE1-NovaLite-input-tokens` is for `NovaLite`. */
export function modelOfUsageType(usageType: string): string {
  const name = usageType.replace(region, '').replace(afterModel, '');
  return name === '' ? usageType : name;
}
