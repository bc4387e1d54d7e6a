/** Shells that `weir completion` writes a script for. */
export const shells = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof shells)[number];

/** A command with its words and options, as its help names them. */
interface CompletedCommand {
  readonly name: string;
  readonly words: readonly string[];
  readonly options: readonly string[];
}

/** What a help text offers: `weir journal status|verify|replay`, `weir check [--watch]`. */
export function completedCommands(
  usage: string,
  helpOf: (name: string) => string,
): readonly CompletedCommand[] {
  const names = new Set([...usage.matchAll(/^ {2}weir ([a-z][a-z-]*)/gm)].map(([, name = '']) => name));
  return [...names].map((name) => {
    const help = helpOf(name);
    const own = [
      ...`${usage}\n${help}`.matchAll(new RegExp(`^ {2}weir ${name}\\b(.*(?:\\n {6,}.*)*)`, 'gm')),
    ];
    const lines = own.map(([, rest = '']) => rest).join('\n');
    const words = [...lines.matchAll(/^ ([a-z][a-z-]*(?:\|[a-z][a-z-]*)*)(?=\s|$)/gm)].flatMap(
      ([, word = '']) => word.split('|'),
    );
    const optionsOf = (text: string) => [...text.matchAll(/--[a-z][a-z-]*/g)].map(([option]) => option);
    const options = help === usage ? optionsOf(lines) : optionsOf(help);
    return { name, words: [...new Set(words)], options: [...new Set([...options, '--help'])].sort() };
  });
}

/** The script of a shell: words after `weir`, options of the command, files otherwise. */
export function completionScript(shell: Shell, commands: readonly CompletedCommand[]): string {
  const names = commands.map(({ name }) => name).join(' ');
  if (shell === 'fish') {
    const lines = commands.flatMap(({ name, words, options }) => [
      ...words.map((word) => `complete -c weir -n '__fish_seen_subcommand_from ${name}' -a ${word}`),
      ...options.map(
        (option) => `complete -c weir -n '__fish_seen_subcommand_from ${name}' -l ${option.slice(2)}`,
      ),
    ]);
    return [`complete -c weir -n __fish_use_subcommand -f -a '${names}'`, ...lines].join('\n');
  }
  const cases = commands.map(
    ({ name, words, options }) => `    ${name}) offered='${[...words, ...options].join(' ')}' ;;`,
  );
  const script = `_weir() {
  local word=\${COMP_WORDS[COMP_CWORD]} offered=
  if [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W '${names}' -- "$word"))
    return
  fi
  case \${COMP_WORDS[1]} in
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$offered" -- "$word"))
}
complete -o default -F _weir weir`;
  return shell === 'bash' ? script : `autoload -U +X bashcompinit && bashcompinit\n${script}`;
}
