// `weir import litellm|portkey|bifrost|openrouter`: writes a configuration from that of another gateway.
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { ImportFromCommand } from '../../core/administration/cli/arguments.ts';
import { messageOf } from '../../core/errors/gateway-error.ts';
import { importBifrost } from './bifrost.ts';
import { Draft, Values, type Written, writtenAs } from './draft.ts';
import { importLiteLLM } from './litellm.ts';
import { importPortkey } from './portkey.ts';
import { Report, type SourceReport } from './report.ts';
import { importSources, type Source } from './source.ts';
import { isJsonObject, type JsonObject } from '../../core/base/json.ts';

/** Where the command prints. */
interface ImportOutput {
  /** The configuration, when no file is named. */
  readonly print: (text: string) => void;
  readonly complain: (text: string) => void;
}

/** What an import makes. */
export interface Imported {
  readonly yaml: string;
  readonly report: Report;
}

/** Reads the configuration of another gateway. Rejects with a sentence when it cannot be read, or is of another kind. */
export async function importFrom({
  from,
  file,
}: Pick<ImportFromCommand, 'from' | 'file'>): Promise<Imported> {
  const report = new Report();
  const draft = await draftOf(from, file, report);
  const comments = [
    `Imported from ${path.basename(file)} by "weir import ${from}". Check it with "weir check FILE"; docs/config-reference.md lists every key.`,
  ];
  return { yaml: draft.text(comments), report };
}

async function draftOf(from: ImportFromCommand['from'], file: string, report: Report): Promise<Draft> {
  switch (from) {
    case 'litellm':
      return importLiteLLM(await importSources.read(file), report);
    case 'portkey':
      return importPortkey(await importSources.readAll(file), report);
    case 'bifrost':
      return importBifrost(await importSources.read(file), report);
    case 'openrouter':
      return importOpenRouter(await importSources.readAll(file), report);
  }
}

/** Runs the command; the exit code. */
export async function runImportCommand(command: ImportFromCommand, output: ImportOutput): Promise<number> {
  const { print, complain } = output;
  const { out, report: reportFile, force } = command;
  try {
    const { yaml, report } = await importFrom(command);
    const flag = force ? 'w' : 'wx';
    if (out !== undefined) await write(out, yaml, flag);
    if (reportFile !== undefined)
      await write(reportFile, `${JSON.stringify(report.file(), null, 2)}\n`, flag);
    if (out === undefined) print(yaml.trimEnd());
    complain(report.text());
    if (out !== undefined) complain(`${out} is written. Check it with "weir check ${out}".`);
    return 0;
  } catch (error) {
    complain(messageOf(error));
    return 1;
  }
}

async function write(file: string, text: string, flag: 'w' | 'wx'): Promise<void> {
  await writeFile(file, text, { flag }).catch((error: unknown) => {
    const isThere = error instanceof Error && 'code' in error && error.code === 'EEXIST';
    throw isThere ? new Error(`${file} is there already; --force writes over it.`) : error;
  });
}

// `weir import openrouter`: parameters of requests or presets of OpenRouter become configs at OpenRouter.

/** Members that are the request's own. */
const ownOfRequest = new Set(['messages', 'prompt', 'input', 'stream', 'stream_options']);
const openRouter = 'openrouter';

/** The configuration with one config for each file. Throws when a file names no model. */
function importOpenRouter(sources: readonly Source[], report: Report): Draft {
  const draft = new Draft();
  for (const source of sources) {
    const { value } = source;
    if (!isJsonObject(value) || !('model' in value || 'models' in value || isJsonObject(value['provider'])))
      throw new Error(
        `${source.file} holds no request or preset of OpenRouter: it has none of model, models and provider.`,
      );
    const told = report.of(source);
    const values = new Values(source, report);
    draft.providerSlug(openRouter, 'openrouter', { api_key: values.variable([], 'OPENROUTER_API_KEY') });
    const name = draft.addConfig(writtenAs.slug(path.parse(source.file).name), openRouterConfig(value, told));
    if (sources.length === 1) draft.provider['config'] = name;
    told.changed(
      [],
      `is configs.${name}: requests name it in x-service-config${sources.length === 1 ? ', or name none' : ''}`,
    );
    report.addForgotten(source);
  }
  if (sources.length > 1) draft.provider['default'] = `@${openRouter}`;
  return draft;
}

function openRouterConfig(value: JsonObject, told: SourceReport): Written {
  const others = Array.isArray(value['models']) ? value['models'].map(importSources.textOf) : [];
  const models = [
    ...new Set([importSources.textOf(value['model']), ...others].filter((model) => model !== '')),
  ];
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
    provider: `@${openRouter}`,
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
