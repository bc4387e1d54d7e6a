// `weir import openrouter`: parameters of requests or presets of OpenRouter become configs at OpenRouter.
import path from 'node:path';
import { isJsonObject, type JsonObject } from '../../core/base/json.ts';
import { Draft, slugOf, Values, type Written } from './draft.ts';
import type { Report, SourceReport } from './report.ts';
import type { Source } from './source.ts';
import { textOf } from './source.ts';

/** Members that are the request's own. */
const ownOfRequest = new Set(['messages', 'prompt', 'input', 'stream', 'stream_options']);
const slug = 'openrouter';

/** The configuration with one config for each file. Throws when a file names no model. */
export function importOpenRouter(sources: readonly Source[], report: Report): Draft {
  const draft = new Draft();
  for (const source of sources) {
    const { value } = source;
    if (!isJsonObject(value) || !('model' in value || 'models' in value || isJsonObject(value['provider'])))
      throw new Error(
        `${source.file} holds no request or preset of OpenRouter: it has none of model, models and provider.`,
      );
    const told = report.of(source);
    const values = new Values(source, report);
    draft.providerSlug(slug, 'openrouter', { api_key: values.variable([], 'OPENROUTER_API_KEY') });
    const name = draft.addConfig(slugOf(path.parse(source.file).name), configOf(value, told));
    if (sources.length === 1) draft.provider['config'] = name;
    told.changed(
      [],
      `is configs.${name}: requests name it in x-service-config${sources.length === 1 ? ', or name none' : ''}`,
    );
    report.addForgotten(source);
  }
  if (sources.length > 1) draft.provider['default'] = `@${slug}`;
  return draft;
}

function configOf(value: JsonObject, told: SourceReport): Written {
  const others = Array.isArray(value['models']) ? value['models'].map(textOf) : [];
  const models = [...new Set([textOf(value['model']), ...others].filter((model) => model !== ''))];
  const defaults: Written = {};
  const overrides: Written = {};
  for (const [key, item] of Object.entries(value)) {
    if (key === 'model' || key === 'models')
      told.mapped([key], models.length > 1 ? 'is a fallback over the models' : 'is the model of the target');
    else if (ownOfRequest.has(key)) told.missing([key], 'belongs to each request');
    else if (key === 'route') told.mapped([key], 'is the strategy');
    else if (key === 'provider' || key === 'plugins' || key === 'transforms') {
      overrides[key] = item;
      told.mapped([key], 'is override_params: OpenRouter gets it with every request');
    } else {
      defaults[key] = item;
      told.mapped([key], 'is default_params: used where the request says nothing');
    }
  }
  const own = {
    provider: `@${slug}`,
    ...(Object.keys(defaults).length > 0 && { default_params: defaults }),
  };
  const target = (model: string): Written => ({
    override_params: { ...(model !== '' && { model }), ...overrides },
  });
  if (models.length < 2) {
    const { override_params: params } = target(models[0] ?? '');
    return { ...own, ...(Object.keys(params as Written).length > 0 && { override_params: params }) };
  }
  return { ...own, strategy: { mode: 'fallback' }, targets: models.map(target) };
}
