// Writes docs/recipes.md from examples/recipes/*.yaml. The head of a recipe is a comment: its title, what it does, and the
// commands that try it. tests/integration/recipes.test.ts runs them, and compares the page.
import { readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';

const folder = fileURLToPath(new URL('../examples/recipes/', import.meta.url));
const target = fileURLToPath(new URL('../docs/recipes.md', import.meta.url));
const command = 'node --import tsx scripts/generate-recipes.ts';

/** A file of examples/recipes. */
export interface Recipe {
  /** Of the file, without `.yaml`. */
  readonly name: string;
  readonly title: string;
  /** Markdown. */
  readonly about: string;
  /** What tries it in a shell. */
  readonly script: string;
  /** The configuration without its head. */
  readonly yaml: string;
}

/** The chapters of the page, each with its recipes in their order. */
const chapters: Readonly<Record<string, readonly string[]>> = {
  'Where requests go': ['fallback', 'load-balance', 'canary', 'conditional-routing', 'retries', 'timeouts'],
  'Clients and providers': [
    'anthropic-client',
    'gemini-client',
    'azure',
    'bedrock',
    'local-model',
    'mock-for-tests',
  ],
  'Keys, limits and money': ['virtual-keys', 'rate-limit', 'budget', 'jwt', 'tenants', 'cache'],
  'What may be said and what is kept': ['guardrail', 'redact-personal-data', 'logs-without-bodies', 'traces'],
  'Prompts and tools': ['mcp-server', 'openapi-tools', 'prompt'],
};

/** All recipes, in the order of the page. Fails for a file that no chapter names, and for a head that is incomplete. */
export async function readRecipes(): Promise<readonly Recipe[]> {
  const names = Object.values(chapters).flat();
  const files = await readdir(folder);
  const recipes = files.filter((file) => file.endsWith('.yaml') && !file.endsWith('.openapi.yaml'));
  const unnamed = recipes.filter((file) => !names.includes(path.basename(file, '.yaml')));
  if (unnamed.length > 0)
    throw new Error(`No chapter of scripts/generate-recipes.ts names ${unnamed.join(', ')}.`);
  return Promise.all(names.map((name) => readRecipe(name)));
}

async function readRecipe(name: string): Promise<Recipe> {
  const text = await readFile(path.join(folder, `${name}.yaml`), 'utf8');
  const [, title, about, tried, yaml] =
    /^# (.+)\n#\n((?:# (?! ).+\n)+)#\n((?:# {3}.+\n)+)(version: 1\n[^]+)$/.exec(text) ?? [];
  if (title === undefined || about === undefined || tried === undefined || yaml === undefined)
    throw new Error(
      `examples/recipes/${name}.yaml has no head of a title, a description and indented commands, each after a line "#".`,
    );
  const script = tried.replaceAll(/^# {3}/gm, '').trim();
  return { name, title, about: about.replaceAll(/^# /gm, '').trim(), script, yaml };
}

/** The page, formatted. */
export async function recipesPage(): Promise<string> {
  const recipes = new Map((await readRecipes()).map((recipe) => [recipe.name, recipe]));
  const sections = Object.entries(chapters).map(([chapter, names]) => {
    const parts = names.map((name) => {
      const recipe = recipes.get(name);
      return recipe === undefined ? '' : sectionOf(recipe);
    });
    return [`## ${chapter}`, ...parts].join('\n\n');
  });
  const text = `# Recipes

<!-- Generated from examples/recipes by \`${command}\`. Change the files there, not this one. -->

Each recipe is a whole configuration, a file of [examples/recipes](../examples/recipes). Save it as \`gateway.config.yaml\`,
set the variables that it names, and start Weir, or save it over the file of a gateway that runs: the next request
is served by it. \`WEIR_KEY\` is the owner's key, which the first start prints. The tests run every recipe with the command
below it, against providers that are played.

${sections.join('\n\n')}
`;
  return format(text, { ...(await resolveConfig(target)), parser: 'markdown' });
}

function sectionOf({ name, title, about, script, yaml }: Recipe): string {
  return `### ${title}

${about}

\`\`\`yaml
${yaml.trim()}
\`\`\`

\`\`\`sh
${script}
\`\`\`

[${name}.yaml](../examples/recipes/${name}.yaml)`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await writeFile(target, await recipesPage());
