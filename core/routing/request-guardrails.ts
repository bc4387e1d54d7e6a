import { RecentMap } from '../base/recent-map.ts';
import { parseJson, type JsonObject } from '../base/json.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { CheckPhase, Checks } from '../pipeline/plugin.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import { callerKey, ownRequest } from '../pipeline/keys.ts';
import type { GuardrailSpec, GuardrailSpecs } from '../ports/guardrails.ts';
import type { RecordPlace } from '../ports/records.ts';
import { placeText } from './plan/config-issue.ts';
import { SavedNames, type SavedRecords } from './plan/config-names.ts';
import { placeKey } from './plan/config-store.ts';
import { readGuardrails } from './plan/read-guardrails.ts';

/** Values of headers that are remembered. */
const maxValues = 500;
/** Longest value of a header that is read, in UTF-16 units. */
const maxLength = 16_384;
const maxGuardrails = 100;
const maxMistakes = 3;

interface Remembered {
  readonly specs: readonly GuardrailSpec[];
  readonly names: SavedNames;
}

/** The guardrails that requests themselves ask for, in headers such as `default-input-guardrails`. */
export class RequestGuardrails {
  readonly #checks: Checks | undefined;
  readonly #records: SavedRecords;
  readonly #known = new RecentMap<Remembered>(maxValues);

  constructor(checks: Checks | undefined, records: SavedRecords) {
    this.#checks = checks;
    this.#records = records;
  }

  /** Undefined for none. Throws `invalid_header` with the header and what is wrong in it. */
  of(exchange: Exchange): GuardrailSpecs | undefined {
    const asking = exchange.guardrailHeaders;
    if (asking === undefined) return undefined;
    const found: Record<CheckPhase, GuardrailSpec[]> = { input: [], output: [] };
    for (const { lower, service = lower } of asking) {
      const value = exchange.header(lower)?.trim() ?? '';
      if (value === '') continue;
      const phase = /(?:^|-)(?:output|after)-/.test(service) ? 'output' : 'input';
      found[phase].push(...this.#ofValue(service, value, { phase, place: placeOf(exchange) }));
    }
    return found.input.length + found.output.length === 0 ? undefined : found;
  }

  #ofValue(
    header: string,
    value: string,
    { phase, place }: { readonly phase: CheckPhase; readonly place: RecordPlace },
  ): readonly GuardrailSpec[] {
    const key = `${placeKey(place)} ${header} ${value}`;
    let remembered = this.#known.touch(key);
    if (remembered === undefined || !remembered.names.holds()) {
      const names = new SavedNames(this.#records, place);
      const type = header.includes('mutator') ? 'mutator' : 'guardrail';
      const mistakes: string[] = [];
      const find = (name: string) => names.findGuardrail(name);
      const specs = readGuardrails(
        listIn(header, value),
        { phase, type, place: header },
        { checks: this.#checks, find },
        (at, message) => void mistakes.push(`${placeText(at)}: ${message}`),
      );
      if (mistakes.length > 0) throw invalid(header, mistakes.slice(0, maxMistakes).join(' | '));
      this.#known.set(key, (remembered = { specs, names }));
    }
    return remembered.specs;
  }
}

function placeOf(exchange: Exchange): RecordPlace {
  const key = exchange.get(callerKey);
  return key === undefined ? { organisationId: '' } : key;
}

/** A JSON list of slugs and guardrails, one JSON object, or slugs with commas between. */
function listIn(header: string, value: string): readonly (string | JsonObject)[] {
  if (value.length > maxLength) throw invalid(header, `It may have ${maxLength} characters`);
  const isJson = value.startsWith('[') || value.startsWith('{');
  const parsed = isJson ? parseJson(value) : value.split(',').map((name) => name.trim());
  if (parsed === undefined) throw invalid(header, 'It is no valid JSON');
  const list: readonly unknown[] = Array.isArray(parsed) ? parsed : [parsed];
  if (list.length > maxGuardrails) throw invalid(header, `It may name ${maxGuardrails} guardrails`);
  if (list.every(isGuardrail)) return list;
  throw invalid(header, 'It must be a list of slugs, or of guardrails with their checks');
}

function isGuardrail(value: unknown): value is string | JsonObject {
  if (typeof value === 'string') return value !== '';
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function invalid(header: string, reason: string): GatewayError {
  return new GatewayError(
    'invalid_header',
    `The ${header.slice(0, 64)} header asks for guardrails that cannot run. ${reason}.`,
    { param: header.slice(0, 64) },
  );
}

/** What judges an attempt: defaults of the request before what its config says, and nothing where the gateway itself asks. */
export function guardrailsOf({
  exchange,
  guardrails: second,
}: {
  readonly exchange: Exchange;
  readonly guardrails: GuardrailSpecs | undefined;
}): GuardrailSpecs | undefined {
  if (exchange.get(ownRequest) !== undefined) return undefined;
  const first = exchange.guardrails;
  if (first === undefined || second === undefined) return first ?? second;
  return { input: [...first.input, ...second.input], output: [...first.output, ...second.output] };
}
