import { answerOf, invalid, type MockAnswer } from '../answer.ts';
import { fields, type MockContext, type MockRequest } from '../request.ts';
import { isJsonObject } from '../../../core/base/json.ts';

const maxInputs = 1000;

/** Words that flag a category, in addition to its name. */
const triggers = {
  hate: ['hate', 'hateful', 'racist'],
  'hate/threatening': ['exterminate'],
  harassment: ['harass', 'idiot', 'loser'],
  'harassment/threatening': ['threaten', 'threat'],
  'self-harm': ['self harm', 'suicide'],
  'self-harm/intent': ['kill myself', 'hurt myself'],
  'self-harm/instructions': ['how to commit suicide', 'how to hurt myself'],
  sexual: ['sexual', 'erotic', 'porn'],
  'sexual/minors': ['underage'],
  violence: ['violence', 'kill', 'murder', 'attack'],
  'violence/graphic': ['gore', 'dismember', 'beheading'],
} as const;

const categories = Object.keys(triggers) as (keyof typeof triggers)[];

/** POST /moderations: 11 categories, flagged by a few words. */
export function answerModerations(request: MockRequest, context: MockContext): MockAnswer {
  const body = request.json;
  const model =
    fields.member(body, 'model') === undefined ? 'text-moderation-latest' : fields.requiredModel(body);
  const inputs = readInputs(fields.member(body, 'input'));
  return answerOf.json({ id: context.newId('modr-'), model, results: inputs.map(judge) });
}

/** One text per result. A list of typed parts (text and images) is one input, as in OpenAI's API. */
function readInputs(input: unknown): readonly string[] {
  if (input === undefined) throw fields.missing('input');
  if (typeof input === 'string') return [input];
  if (!Array.isArray(input)) throw fields.wrongType('input', 'a string or an array', input);
  if (input.length === 0) throw invalid('input', "Invalid 'input': empty array.", 'empty_array');
  if (input.length > maxInputs) throw invalid('input', `Invalid 'input': at most ${maxInputs} items.`);
  if (input.every(isJsonObject)) return [fields.textOfContent(input)];
  return input.map((item: unknown, index) => {
    if (typeof item !== 'string') throw fields.wrongType(`input[${index}]`, 'a string', item);
    return item;
  });
}

function judge(text: string): object {
  const words = asWords(text);
  const named = new Set<string>();
  for (const category of categories) {
    const wanted = [category, ...triggers[category]];
    if (!wanted.some((word) => words.includes(asWords(word)))) continue;
    named.add(category);
    // `hate/threatening` also flags `hate`.
    named.add(category.split('/')[0] as string);
  }
  const flags = categories.map((category) => [category, named.has(category)] as const);
  return {
    flagged: named.size > 0,
    categories: Object.fromEntries(flags),
    category_scores: Object.fromEntries(
      flags.map(([category, flagged], index) => [category, score(text, index, flagged)]),
    ),
  };
}

/** Invented but constant per text: above 0.9 when flagged, below 0.001 otherwise. */
function score(text: string, index: number, flagged: boolean): number {
  const noise = ((text.length * 31 + index * 17) % 97) / 100_000;
  return flagged ? 0.95 + noise : noise;
}

function asWords(text: string): string {
  const plain = text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, ' ');
  return ` ${plain.trim()} `;
}
