import type { TProperties } from 'typebox';
import { type AnyCheck, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { GuardrailData } from '../../../core/ports/record-kinds.ts';
import { strict } from '../checks/shared.ts';
import { serviceCheck } from './ask-service.ts';
import { acuvityServices, cloudServices } from './rows-clouds.ts';
import { qualityServices } from './rows-quality.ts';
import { securityServices } from './rows-security.ts';
import { serviceFields, type ServiceRow } from './service.ts';

/** Every service that can be asked: one row for each check. */
export const services: readonly ServiceRow[] = [
  ...acuvityServices,
  ...cloudServices,
  ...securityServices,
  ...qualityServices,
];

/** The checks that ask them. */
export const serviceChecks: readonly AnyCheck[] = services.map(serviceCheck);

function serviceOf(id: string): string {
  return id.slice(0, id.indexOf('.'));
}

/** Operator settings for the checks of one service; with the credentials of all its checks. */
function operatorSchema(rows: readonly ServiceRow[]) {
  const credentials: TProperties = {};
  for (const row of rows) {
    const { properties } = serviceFields.credentials(row);
    for (const [name, schema] of Object.entries(properties))
      credentials[name] = row.credentialsIn === undefined ? schema : Type.Optional(schema);
  }
  return Type.Object(
    {
      credentials: Type.Optional(
        Type.Object(credentials, {
          ...strict,
          description: 'Credentials of the gateway at the service, for checks without their own.',
        }),
      ),
      base_url: Type.Optional(
        serviceFields.address(
          'URL that replaces the public address of the service. It has to be public or listed in `security.trusted_hosts`.',
        ),
      ),
    },
    strict,
  );
}

const names = [...new Set(services.map(({ id }) => serviceOf(id)))].sort();

/** Operator settings of services, by their names: the part of a check's id before the dot. */
export const ServicesSchema = Type.Object(
  Object.fromEntries(
    names.map((name) => [
      name,
      Type.Optional(operatorSchema(services.filter(({ id }) => serviceOf(id) === name))),
    ]),
  ),
  {
    ...strict,
    description:
      'Defaults of checks that call services, by the first part of their ids. Guardrails of every organisation may use them.',
  },
);

type Parameters = GuardrailData['checks'][number]['parameters'];

/**
 * The parameters of a check with the operator's settings of its service. Credentials of the operator go only to the
 * operator's address or the service's own: a check that names one, or credentials of its own, gets none of them.
 */
export function withOperatorSettings(
  { id, parameters }: { readonly id: string; readonly parameters: Parameters },
  operator: Static<typeof ServicesSchema>,
): Parameters {
  const own = (operator as Readonly<Record<string, OperatorSettings | undefined>>)[serviceOf(id)];
  if (own === undefined) return parameters;
  const { base_url: baseURL, credentials } = own;
  const usesOwn =
    credentials !== undefined &&
    parameters['credentials'] === undefined &&
    parameters['baseURL'] === undefined;
  return {
    ...(baseURL !== undefined && { baseURL }),
    ...(usesOwn && { credentials, ofOperator: true }),
    ...parameters,
  };
}

type OperatorSettings = { readonly base_url?: string; readonly credentials?: Parameters };
