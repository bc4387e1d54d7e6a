// `weir import litellm`: the configuration of LiteLLM's proxy.
import { isJsonObject } from '../../core/base/json.ts';
import { Draft, Values } from './draft.ts';
import { liteLLMHosts } from './litellm-hosts.ts';
import { readDeployments } from './litellm-models.ts';
import { writeRouting } from './litellm-routing.ts';
import { writeSettings } from './litellm-settings.ts';
import type { Report } from './report.ts';
import type { Source } from './source.ts';

/** The configuration that does what a file of LiteLLM's proxy says. Throws when it is no such file. */
export function importLiteLLM(source: Source, report: Report): Draft {
  const sections = [
    'model_list',
    'litellm_settings',
    'router_settings',
    'general_settings',
    'mcp_servers',
    'guardrails',
  ];
  const { value } = source;
  if (!isJsonObject(value) || !sections.some((name) => name in value))
    throw new Error(`${source.file} is no configuration of LiteLLM: it has none of ${sections.join(', ')}.`);
  const draft = new Draft();
  // A host without a key of its own takes the variable that LiteLLM would read.
  const reserved = [...liteLLMHosts.values()].flatMap(({ key }) => key ?? []);
  const needsOwn = (item: unknown): boolean =>
    isJsonObject(item) && !JSON.stringify(item).includes('"api_key"');
  const list = Array.isArray(value['model_list']) ? value['model_list'] : [];
  const values = new Values(source, report, list.some(needsOwn) ? reserved : []);
  const told = report.of(source);
  const parts = { source, told, draft, values };
  const include = value['include'];
  if (include !== undefined)
    told.missing(
      ['include'],
      'other files are imported one by one; keep them together with "include" of the gateway',
    );
  const deployments = readDeployments(parts);
  writeRouting(parts, deployments);
  writeSettings(parts, deployments);
  report.addForgotten(source, sections);
  return draft;
}
