import type { Finding, Need, ServiceRow } from './service.ts';
import {
  filled,
  filledText,
  findAt,
  firstAt,
  type Found,
  type Template,
  type Values,
  valueAt,
} from './template.ts';

/** Findings in an answer of a service. */
export interface Findings {
  readonly isFound: boolean;
  /** There is a finding that new texts do not remove. */
  readonly lasting: boolean;
  /** Names of the findings; never a piece of a text. */
  readonly names: readonly string[];
  readonly explanation: string | undefined;
}

/** Longest name and explanation that are shown, and how many names. */
const longestName = 100;
const longestExplanation = 500;
const mostNames = 20;

/** Throws when the answer contains no judgement. */
export function judgeAnswer(row: ServiceRow, answer: unknown, values: Values): Findings {
  for (const need of row.needs) requireThere(answer, need, values);
  const foundBy = (findings: readonly Finding[]) =>
    findings.flatMap((finding) =>
      matches(answer, finding, values).map((one) => ({ finding, name: nameOf(one, finding) })),
    );
  const found = foundBy(row.fails);
  const told = found.length === 0 ? found : [...found, ...foundBy(row.tells ?? [])];
  const said = row.explains === undefined ? undefined : firstAt(answer, row.explains);
  return {
    isFound: found.length > 0,
    lasting: found.some(({ finding: { mended } }) =>
      typeof mended === 'string' ? valueAt(values, mended) !== true : mended !== true,
    ),
    names: [...new Set(told.flatMap(({ name }) => name ?? []))].slice(0, mostNames),
    explanation: typeof said === 'string' && said !== '' ? said.slice(0, longestExplanation) : undefined,
  };
}

function requireThere(answer: unknown, { at, is, oneOf, with: members }: Need, values: Values): void {
  const found = at === '' ? [{ value: answer }] : findAt(answer, at);
  const names = members === undefined ? [] : listOf(filled(members, values));
  const fits = ({ value }: Pick<Found, 'value'>): boolean =>
    typeOf(value) === is &&
    oneOf?.includes(value) !== false &&
    names.every((name) => Object.hasOwn(Object(value) as object, name));
  if (found.length > 0 && found.every(fits)) return;
  const wanted = oneOf === undefined ? `a ${is}` : `one of ${oneOf.join(', ')}`;
  throw new Error(
    `the service did not judge: its answer has ${at === '' ? 'nothing' : `no "${at}"`} that is ${wanted}`,
  );
}

function typeOf(value: unknown): string {
  if (Array.isArray(value)) return 'list';
  return value === null ? 'null' : typeof value;
}

function matches(answer: unknown, finding: Finding, values: Values): readonly Found[] {
  const { when, among, notBeginning } = finding;
  if (when !== undefined && valueAt(values, when) !== true) return [];
  const names = among === undefined ? undefined : listOf(filled(among, values));
  return findAt(answer, finding.at).filter((found) => {
    const name = nameOf(found, finding)?.toLowerCase() ?? '';
    if (names?.includes(name) === false) return false;
    if (notBeginning !== undefined && name.startsWith(notBeginning)) return false;
    return isMet(found.value, finding, values);
  });
}

function isMet(value: unknown, finding: Finding, values: Values): boolean {
  const { equals, differs, atLeast, above, isNotEmpty, isSet } = finding;
  if (isSet === true) return value !== undefined && value !== null && value !== false;
  if (isNotEmpty === true)
    return (
      (typeOf(value) === 'list' || typeOf(value) === 'object') &&
      Object.keys(Object(value) as object).length > 0
    );
  if (atLeast !== undefined) return typeof value === 'number' && value >= numberOf(atLeast, values);
  if (above !== undefined) return typeof value === 'number' && value > numberOf(above, values);
  if (differs !== undefined) return value !== differs;
  return value === equals;
}

/** The threshold; infinite where the parameters have none. */
function numberOf(template: Template, values: Values): number {
  const value = filled(template, values);
  return typeof value === 'number' ? value : Number(filledText(template, values) ?? Infinity);
}

function listOf(value: unknown): readonly string[] {
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  return list.map((one) => String(one).toLowerCase());
}

function nameOf({ key, element, value }: Found, { at, named, called }: Finding): string | undefined {
  if (called !== undefined) return called;
  const name = named === undefined ? key : named === '.' ? value : valueAt(element, named);
  if (typeof name === 'string' && name !== '' && !/^\d+$/.test(name)) return name.slice(0, longestName);
  // For an element of a list, or a fixed place: the last member name in the path.
  return at.split('.').findLast((step) => !/^(\d+|\*)$/.test(step));
}
