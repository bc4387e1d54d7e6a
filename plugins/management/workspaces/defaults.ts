import type { WorkspaceDefaults } from '../../../core/ports/resources.ts';
import { DefaultGuardrailNames } from '../../../core/organisation/guardrails.ts';
import { defaultGuardrailKeys } from '../../../core/organisation/route-config.ts';
import { refusedBody } from '../shared/fields.ts';
import type { DefaultNames } from '../configs/uses.ts';

/** Default guardrails in bodies. Absent members stay unchanged; an empty list removes all. */
const guardrailDefaults = {
  input_guardrails: DefaultGuardrailNames(
    'Guardrails that judge every request, even if it does not name them. Omitted: unchanged.',
  ),
  output_guardrails: DefaultGuardrailNames(
    'Guardrails that judge every answer, even if the request does not name them. Omitted: unchanged.',
  ),
};

/** Defaults of workspaces, keys and the organisation. */
export const workspaceDefaults = {
  guardrails: guardrailDefaults,
  read: readDefaults,
  shownModels,
  changedGuardrails,
  showGuardrails,
};

/**
 * Default metadata and config of requests, at `pointer` of the body. Throws `invalid_request` for an unknown config.
 */
function readDefaults(
  {
    metadata,
    config_id: configId,
    allowed_models: allowedModels,
  }: { metadata?: Record<string, string>; config_id?: string | null; allowed_models?: string[] | null },
  router: DefaultNames,
  pointer = '/defaults',
): WorkspaceDefaults {
  const missing = typeof configId === 'string' ? router.missingConfig(configId) : undefined;
  if (missing !== undefined) throw refusedBody([{ path: `${pointer}/config_id`, message: missing }]);
  return {
    ...(metadata !== undefined && { metadata }),
    ...(typeof configId === 'string' && { configId }),
    ...(Array.isArray(allowedModels) && { allowedModels }),
  };
}

/** Allowed models in the API's shape. */
function shownModels({ allowedModels }: Pick<WorkspaceDefaults, 'allowedModels'>): string[] | null {
  return allowedModels === undefined ? null : [...allowedModels];
}

interface GivenGuardrails {
  input_guardrails?: string[];
  output_guardrails?: string[];
}

/**
 * Default guardrails after the change by a body; absent members stay unchanged. Throws `invalid_request`, with the
 * place below `pointer`, for guardrails that cannot judge there.
 */
function changedGuardrails(
  body: GivenGuardrails,
  { guardrails: before }: WorkspaceDefaults,
  { names, pointer }: { readonly names: Pick<DefaultNames, 'unusableGuardrail'>; readonly pointer: string },
): Pick<WorkspaceDefaults, 'guardrails'> {
  const mistakes: { path: string; message: string }[] = [];
  for (const [key, phase] of defaultGuardrailKeys)
    for (const [index, name] of (body[key] ?? []).entries()) {
      const message = names.unusableGuardrail(name, phase);
      if (message !== undefined) mistakes.push({ path: `${pointer}/${key}/${index}`, message });
    }
  if (mistakes.length > 0) throw refusedBody(mistakes);
  const input = body.input_guardrails ?? before?.input ?? [];
  const output = body.output_guardrails ?? before?.output ?? [];
  return input.length + output.length === 0 ? {} : { guardrails: { input, output } };
}

/** Default guardrails in the API's shape. */
function showGuardrails({ guardrails }: WorkspaceDefaults) {
  return {
    input_guardrails: [...(guardrails?.input ?? [])],
    output_guardrails: [...(guardrails?.output ?? [])],
  };
}
