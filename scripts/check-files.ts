// House rules outside a linter's scope: names of files, their size, and rules that may not be disabled.
import { existsSync, readFileSync } from 'node:fs';
import type { Source } from './read-sources.ts';

const maxLines = 500;
const exempt = /(\.gen\.ts|^adapters\/providers\.ts)$/;
const vague = /(^|\/)(utils?|helpers?|types|common|misc)\.ts$/;
const switchesOff =
  /(\bas any\b|:\s*any\b|@ts-ignore|@ts-expect-error|@ts-nocheck|\bas unknown as\b|eslint-disable)/;
const clockUse = /\b(Date\.now|Math\.random)\(/;
/** A comment names its subject: "The faults of a pipeline", not "What is wrong with a pipeline". */
const inverted = /(?:\/\/|\/\*\*|^ *\*) +(?:Who|Whoever|Nobody|Whatever|What (?:is|are|was|were))\b/;

/** Every file that breaks a rule, with the rule. */
export function checkFileRules(sources: readonly Source[]): readonly string[] {
  return sources.flatMap(({ file, text }) => {
    const problems: string[] = [];
    const test = file.endsWith('.test.ts') || file.startsWith('tests/');
    // The last line ends with a line feed.
    const lines = text.split('\n').length - 1;
    if (lines > maxLines && !exempt.test(file) && !test)
      problems.push(`${file}: ${lines} lines; split it (at most ${maxLines})`);
    if (!/^[a-z0-9.-]+$/.test(file.split('/').pop() ?? '')) problems.push(`${file}: name it in kebab-case`);
    if (vague.test(file)) problems.push(`${file}: the name says nothing; name the concept`);
    if (!test && !file.startsWith('scripts/')) {
      text.split('\n').forEach((line, index) => {
        if (switchesOff.test(line))
          problems.push(`${file}:${index + 1}: switches the type checker or the linter off`);
      });
      if (/^(core|plugins)\//.test(file) && file !== 'core/ports/clock.ts' && clockUse.test(text))
        problems.push(`${file}: take time and chance from the ports`);
    }
    text.split('\n').forEach((line, index) => {
      if (inverted.test(line)) problems.push(`${file}:${index + 1}: begin the comment with its subject`);
    });
    if (/\.(skip|only|todo)\(/.test(text) && file.endsWith('.test.ts'))
      problems.push(`${file}: skipped or exclusive test`);
    return problems;
  });
}

/** Documents that guide a reader through the sources: every path in code marks must exist. */
export function checkNamedPaths(): readonly string[] {
  return ['ARCHITECTURE.md', 'CONTRIBUTING.md'].flatMap((document) =>
    [...readFileSync(document, 'utf8').matchAll(/`((?:[a-z-]+\/)+(?:[a-z0-9.-]+\.[a-z]+)?)`/g)]
      .map(([, named = '']) => named)
      .filter((named) => !existsSync(named))
      .map((named) => `${document} names ${named}, which is not there`),
  );
}
