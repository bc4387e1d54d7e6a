import { resolveImport, type Source } from './read-sources.ts';

/** The package's entries for plugin authors: external code imports their exports. */
const publicEntries = new Set(['core/pipeline/plugin.ts', 'main/testing/index.ts']);

const declaration =
  /^export (?:declare )?(?:abstract )?(?:async )?(?:const|let|function\*?|class|interface|type|enum) (\w+)/gm;
const named = /^(?:import|export) (?:type )?(?:\w+, )?\{([^}]*)\} from '([^']+)'/gm;
/** Imports of all exports of a file. */
const whole =
  /^(?:import (?:type )?\* as \w+|export (?:type )?\*(?: as \w+)?) from '([^']+)'|\bimport\('([^']+)'\)/gm;

/** Every export that no other file imports, with its position; tests and tools count as importers. */
export function checkExports(sources: readonly Source[]): readonly string[] {
  const taken = new Set<string>();
  const takenWhole = new Set(publicEntries);
  for (const source of sources) {
    for (const [, names = '', from = ''] of source.text.matchAll(named))
      for (const name of names.split(',').map(importedName))
        if (name !== '') taken.add(`${resolveImport(source, from)} ${name}`);
    for (const [, from, loaded = ''] of source.text.matchAll(whole))
      takenWhole.add(resolveImport(source, from ?? loaded));
  }
  return sources
    .filter(({ file }) => !takenWhole.has(file))
    .flatMap(({ file, text }) =>
      [...text.matchAll(declaration)]
        .filter(([, name = '']) => !taken.has(`${file} ${name}`))
        .map(({ 1: name = '', index }) => {
          const line = text.slice(0, index).split('\n').length;
          return `${file}:${line}: no other file imports ${name}; remove the word export, or the code`;
        }),
    );
}

/** `a` of `a`, `type a` and `a as b`. */
function importedName(specifier: string): string {
  return /^(?:type )?(\w+)/.exec(specifier.trim())?.[1] ?? '';
}
