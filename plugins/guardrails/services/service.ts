/** Services as data: one row for each check that asks one. */
import type { TObject, TProperties } from 'typebox';
import type { CredentialKind } from '../../../core/ports/credentials.ts';
import { type CheckPhase, Type } from '../../../core/pipeline/plugin.ts';
import { strict } from '../checks/shared.ts';
import type { Template, Values } from './template.ts';

/**
 * One check that asks a service. Places of templates are filled with `text` (all texts that are judged, joined by line
 * feeds; with `asks: each` one of them), `texts`, `messages` (of the request, `{role, content}`), `request.text`, `json`,
 * `model`, `provider`, `phase`, `metadata`, `parameters` and `credentials`.
 */
export interface ServiceRow {
  /** Name in guardrails of existing clients: `pangea.textGuard`. */
  readonly id: string;
  readonly aliases?: readonly string[];
  /** One sentence for the generated reference, without the end about addresses. */
  readonly description: string;
  readonly phases: readonly CheckPhase[];
  /** Beside `credentials`, `baseURL` and `timeout`. */
  readonly parameters: TProperties;
  /** Of strings; made with `secret` and `setting`. */
  readonly credentials: TProperties;
  /** The member of `credentials` that holds them, for services with several. */
  readonly credentialsIn?: string;
  /** Default of `timeout`, in milliseconds. Default: 5000. */
  readonly timeoutMs?: number;
  /** Scheme and host, and the prefix of `path`; the first of them whose places have values. */
  readonly base: readonly (Template | ((credentials: Values) => string | undefined))[];
  /** With its query. Values in it are encoded. */
  readonly path: Template;
  readonly headers: Readonly<Record<string, Template>>;
  /** Authorizes the request by more than a header, where `when` has a value. */
  readonly signs?: {
    readonly kind: CredentialKind;
    readonly when: string;
    readonly fields: Readonly<Record<string, Template>>;
  };
  readonly body: Template;
  /** `each`: one request for every text. Default: one for all of them. */
  readonly asks?: 'each';
  /** Longest text of one request, in UTF-16 units, where the service has a bound: longer ones are cut into several. With `each`. */
  readonly mostCharacters?: number;
  /** More values, below `derived`, where templates cannot express how parameters are used. */
  derives?(values: Values): Values;
  /** Members that an answer must have to count as a judgement. */
  readonly needs: readonly Need[];
  /** The check fails when one of them is found. */
  readonly fails: readonly Finding[];
  /** Further findings, named once the check fails. */
  readonly tells?: readonly Finding[];
  /** The service's replacement of the texts. */
  readonly replaces?: Replacement;
  /** Place of the explanation for people in the answer. */
  readonly explains?: string;
}

/** A member that an answer must have. */
export interface Need {
  /** Members with dots between, `*` for each of a list or object, of which there must be one. */
  readonly at: string;
  readonly is: 'boolean' | 'number' | 'string' | 'list' | 'object';
  /** Only these. */
  readonly oneOf?: readonly unknown[];
  /** Members that it must have: a template of a list. */
  readonly with?: Template;
}

/** A member of an answer for which the check fails. */
export interface Finding {
  readonly at: string;
  /** Condition on the value; the first one that is given counts. */
  readonly equals?: string | boolean;
  readonly differs?: string | boolean;
  readonly atLeast?: Template;
  readonly above?: Template;
  readonly isNotEmpty?: true;
  /** It is there, and neither false nor null. */
  readonly isSet?: true;
  /** Member that names the finding, in the element of the last `*`; `.` for the value. Default: the name for which `*` stands. */
  readonly named?: string;
  /** The name, where the answer does not contain it. */
  readonly called?: string;
  /** Only findings with one of these names: a template of a list. */
  readonly among?: Template;
  /** No findings whose name begins like this. */
  readonly notBeginning?: string;
  /** Only when the value at this place is true. */
  readonly when?: string;
  /** The service's replacement removes the finding; with a place: when that is true. */
  readonly mended?: true | string;
}

/** Places of replacement texts in an answer. */
export interface Replacement {
  /** Parameters; one of them must be true. Default: `redact`. Empty: always. */
  readonly when?: readonly string[];
  readonly kind:
    | 'text' // one text, or the first of several places
    | 'texts' // as many as were sent, in their order
    | 'matches' // pieces of the text, with `text` and `label` in each
    | 'spans' // pairs of places in the text, in code points
    | 'json' // the whole JSON of a request or an answer
    | 'context'; // findings of a search, added to a system message
  readonly at: readonly string[];
  /** Members of a match. */
  readonly text?: string;
  readonly label?: string;
}

/** A reference to a secret in an external secret manager. */
const Reference = Type.Object(
  {
    secret_reference: Type.String({
      minLength: 1,
      maxLength: 255,
      description: 'Id or slug of a secret reference that the workspace may use.',
    }),
    secret_key: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 255,
        description: 'Member of its JSON. Default: the whole secret.',
      }),
    ),
  },
  strict,
);

/** A credential: the secret itself, or a reference to it. */
const secret = (description: string) =>
  Type.Union([Type.String({ minLength: 1, maxLength: 8192 }), Reference], { description });

/** A setting beside secrets that is not secret: a region, a domain. */
const setting = (description: string, more: { readonly default?: string } = {}) =>
  Type.String({ minLength: 1, maxLength: 2048, description, ...more });

/** An address of another host. */
const address = (description: string, more: { readonly default?: string } = {}) =>
  Type.String({ maxLength: 2048, pattern: '^[hH][tT][tT][pP][sS]?://[^\\s?#]+$', description, ...more });

/** An optional parameter with text. */
const text = (description: string, more: { readonly default?: string } = {}) =>
  Type.Optional(Type.String({ minLength: 1, maxLength: 4096, description, ...more }));

/** Settings of a service. */
export const serviceFields = { secret, setting, address, text, credentials: credentialsSchema };

/** The parameter `redact`. */
export const Redact = Type.Optional(
  Type.Boolean({
    default: false,
    description: 'Apply the redactions of the service, and pass.',
  }),
);

/** The schema of `credentials` of a row. */
function credentialsSchema({ credentials, credentialsIn }: ServiceRow): TObject {
  const own = Type.Object({ ...credentials }, strict);
  return credentialsIn === undefined ? own : Type.Object({ [credentialsIn]: own }, strict);
}
