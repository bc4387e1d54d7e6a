/**
 * Heuristic checks of a text's form. They are fast, need no model, and err in both directions. An operator who needs more
 * asks a model by a webhook.
 */
import { francAll } from 'franc-min';
import {
  type AnyCheck,
  type CheckSubject,
  defineCheck,
  skipped,
  Type,
  verdictOf,
} from '../../../core/pipeline/plugin.ts';
import { Not, strict, viewsOfAll } from './shared.ts';

/** Invisible characters, accents and marks; they do not distinguish words here. */
const unseen = /\p{M}|[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]|[\u{e0000}-\u{e007f}]/gu;

/** Small letters without accents, in their plain forms, with single spaces. */
function plain(text: string): string {
  return text.normalize('NFKD').replace(unseen, '').toLowerCase().replace(/\s+/g, ' ');
}

/** Each of the phrases, written as `plain` writes texts. A gap `~` is up to 40 signs within a sentence, `..` up to 15. */
function phrases(...sources: readonly string[]): RegExp {
  const written = sources.map((one) =>
    plain(one).replaceAll('~', '[^.!?]{0,40}?').replaceAll('..', '[^.!?。！？]{0,15}?'),
  );
  return new RegExp(written.join('|'), 'u');
}

/** Phrases of attempts to take over a model, by their aim. */
const phrasesOf = {
  override: phrases(
    '\\b(?:ignore|disregard|forget|override|bypass)\\b~\\b(?:previous|prior|above|earlier|preceding|all|your|system|initial|original)\\b~\\b(?:instruction|prompt|rule|direction|guideline|command)s?\\b',
    '\\b(?:ignorier|vergiss|missachte|übergeh)[a-z]*~(?:anweisung|anleitung|regel|vorgabe|instruktion|befehl|prompt)',
    '\\b(?:ignore|oublie|néglige)[sz]?\\b~(?:instruction|consigne|règle|directive)s?\\b~(?:précédent|antérieur|ci-dessus|système|initial)',
    '\\b(?:ignora|olvida|descarta|omite|haz caso omiso)\\b~(?:instruccion|indicacion|regla|orden|directri|prompt)',
    '\\b(?:ignora|dimentica|trascura)\\b~(?:istruzion|regol|direttiv|comand|prompt)',
    '\\b(?:ignor[ae]|esqueça|esqueca|desconsidere)\\b~(?:instruç|instruc|regra|diretriz|ordens|prompt)',
    '\\b(?:negeer|vergeet)\\b~(?:instructie|regel|opdracht|aanwijzing|prompt)',
    '\\b(?:z?ignoruj|zapomnij|pomiń)\\b~(?:instrukcj|polece|zasad|prompt)',
    '(?:игнорир|проигнорир|забуд)[а-я]*~(?:инструкци|указани|правил|команд|промпт)',
    '(?:忽略|无视|忘记|忽視|無視|忘記)..(?:指令|指示|提示|规则|規則|要求)',
    '(?:指示|命令|ルール|プロンプト|規則)..(?:無視|忘れ)',
    '(?:이전|위의|모든)..(?:지시|명령|규칙)..(?:무시|잊)',
  ),
  reveal: phrases(
    '\\b(?:reveal|show|print|repeat|output|display|tell me|give me|leak|dump|write out|what (?:is|are|was|were))\\b~\\b(?:(?:system|initial|hidden|original) (?:prompt|message|instruction)s?|your (?:prompt|(?:system |initial |original |hidden )?instructions)|(?:prompt|text|words|instructions) above)\\b',
    '\\b(?:zeig|nenn|gib|wiederhol|verrat)[a-z]*~(?:system-?prompt|systemnachricht|system-?anweisung|deine (?:anweisung|instruktion))',
    '\\b(?:montre|révèle|affiche|répète|donne)\\b~(?:prompt système|instructions (?:système|initiales|cachées))',
    '\\b(?:muestra|revela|repite|dime)[a-z]*\\b~(?:prompt del sistema|instrucciones (?:del sistema|iniciales|ocultas))',
    '(?:显示|输出|告诉|透露|重复|打印)..(?:系统提示|系统指令|初始指令)',
    '(?:システムプロンプト|初期指示)..(?:表示|教え|出力)',
  ),
  role: phrases(
    '\\b(?:you are now|from now on,? you|act as|pretend (?:to be|you are)|role-?play as)\\b~\\b(?:dan|jailbroken|unrestricted|unfiltered|uncensored|without (?:\\bany )?(?:restriction|rule|limit|filter|guideline)s?|no (?:restriction|rule|limit|filter)s?|developer mode)\\b',
    '\\b(?:developer|god|dan|jailbreak|sudo) mode (?:is )?(?:enabled|activated|on)\\b',
    '\\b(?:enable|activate|enter) (?:developer|god|dan|jailbreak|sudo) mode\\b',
    '\\bdo anything now\\b',
  ),
  delimiters: phrases(
    '<\\|(?:im_start|im_end|system|endoftext|start_header_id|end_header_id|eot_id)\\|>',
    '\\[/?(?:inst|system)\\]',
    '<</?sys>>',
    '</?(?:system|system_prompt|system-prompt)>',
    '(?:^| )#{2,4} ?(?:system|new instructions?)\\b',
    '\\b(?:begin|end) (?:of )?(?:the )?system (?:prompt|message)\\b',
  ),
} as const;

/** Text in tag characters, which are invisible but read by models; long runs of zero-width characters. */
const hidden = /[\u{e0020}-\u{e007e}]{4,}|[\u200b-\u200d\u2060]{8,}/u;

const kindNames = [...(Object.keys(phrasesOf) as (keyof typeof phrasesOf)[]), 'hidden'] as const;
type Kind = (typeof kindNames)[number];

function hasKind(kind: Kind, text: string, plainText: string): boolean {
  return kind === 'hidden' ? hidden.test(text) : phrasesOf[kind].test(plainText);
}

/** Texts without those of the operator, which are no attempts: a system prompt may well forbid to reveal it. */
function othersOf(subject: CheckSubject): readonly string[] {
  const texts = subject.texts.filter(({ role }) => role !== 'system' && role !== 'developer');
  return viewsOfAll({ ...subject, texts });
}

const promptInjection = defineCheck({
  id: 'default.promptInjection',
  aliases: ['default.prompt-injection'],
  description:
    'Fails when a text, except system and developer texts, contains a phrase that is common in prompt attacks. A heuristic over known phrases in Chinese, Dutch, English, French, German, Italian, Japanese, Korean, Polish, Portuguese, Russian and Spanish, markers of chat templates, and invisible text: it misses attacks in other words, and reports texts that only talk about an attack.',
  phases: ['input', 'output'],
  schema: Type.Object(
    {
      kinds: Type.Optional(
        Type.Array(Type.Enum([...kindNames]), {
          minItems: 1,
          uniqueItems: true,
          description:
            'Kinds of attack: `override` of instructions, `reveal` of the prompt, `role` without rules, `delimiters` of chat templates, `hidden` text. Default: all of them.',
        }),
      ),
      not: Not,
    },
    strict,
  ),
  create({ kinds = kindNames, not }) {
    const asked = kindNames.filter((kind) => kinds.includes(kind));
    return (subject) => {
      const views = othersOf(subject);
      if (views.length === 0) return skipped('There is no text to look at.');
      const found = new Set<Kind>();
      for (const view of views) {
        const plainText = plain(view);
        for (const kind of asked) if (!found.has(kind) && hasKind(kind, view, plainText)) found.add(kind);
      }
      const explanation =
        found.size === 0 ? 'No known phrase is found.' : 'The text reads like an attack on a prompt.';
      return verdictOf(found.size === 0, not, { explanation, kinds: [...found] });
    };
  },
});

/** Most words in Latin letters that are examined. */
const mostWords = 2000;
const latinWord = /[a-z]{4,40}/g;
const rowOfKeys = /qwer|wert|erty|asdf|sdfg|dfgh|fghj|ghjk|hjkl|zxcv|xcvb|cvbn|vbnm|yuio|uiop/;
/** No vowel, five consonants in a row, four vowels in a row, or one letter four times. */
const unlikely = /^[^aeiouy]+$|[^aeiouy]{5}|[aeiou]{4}|(.)\1{3}/;
/** Long runs of consonants that German, Polish, Czech or Dutch have. */
const likely = /sch|cht|ngst|rcht|szcz|prst|tsch|dzi|ght|rzy|str/;

const gibberish = defineCheck({
  id: 'default.gibberish',
  aliases: ['portkey.gibberish'],
  description:
    'Fails when the text looks like random letters. A heuristic over words in Latin letters (no vowels, long runs of consonants, rows of keys): it does not check whether words exist or make sense. Texts with fewer than three such words are skipped.',
  phases: ['input', 'output'],
  schema: Type.Object(
    {
      threshold: Type.Optional(
        Type.Number({
          minimum: 0.05,
          maximum: 1,
          default: 0.4,
          description: 'Share of unlikely words at or above which a text fails.',
        }),
      ),
      not: Not,
    },
    strict,
  ),
  create({ threshold = 0.4, not }) {
    return ({ text }) => {
      const words = (plain(text.slice(0, mostWords * 20)).match(latinWord) ?? []).slice(0, mostWords);
      if (words.length < 3) return skipped('The text has too few words in Latin letters.');
      const odd = words.filter((word) => rowOfKeys.test(word) || (unlikely.test(word) && !likely.test(word)));
      const share = Math.round((odd.length / words.length) * 100) / 100;
      const explanation = `${odd.length} of ${words.length} words are unlikely.`;
      return verdictOf(share < threshold, not, { explanation, share, threshold });
    };
  },
});

/** The languages that the check distinguishes, by ISO 639-3. */
const known =
  'amh arb azj bel ben bho bos bul ceb ces ckb cmn deu ell eng fra fuv guj hau hin hms hnj hrv hun ibo ilo ind ita jav jpn ' +
  'kan kaz kin kor lin mad mag mai mal mar mya nld npi nya pan pbu pes plt pol por qug ron run rus sin skr som spa srp sun ' +
  'swe swh tam tel tgl tha tur ukr urd uzn vie yor zha zlm zul';
/** Codes of the library that differ from those of the registry of languages. */
const otherNames: Readonly<Record<string, string>> = {
  zlm: 'ms',
  zyb: 'za',
  zha: 'za',
  tgl: 'tl',
  fil: 'tl',
};

/** One name for each language: `deu`, `de` and `deu_Latn` are the same. */
function canonical(code: string): string | undefined {
  const bare = code.replace(/_.*$/, '').toLowerCase();
  const other = otherNames[bare];
  if (other !== undefined) return other;
  try {
    return Intl.getCanonicalLocales(bare)[0];
  } catch {
    return undefined;
  }
}
const knownLanguages: ReadonlySet<string | undefined> = new Set(known.split(' ').map(canonical));

/** Letters that a guess needs. */
const fewestLetters = 20;
const Code = Type.String({ pattern: '^[A-Za-z]{2,3}(?:_[A-Za-z]{4})?$' });

const language = defineCheck({
  id: 'default.language',
  aliases: ['portkey.language'],
  description:
    'Passes when the text is most likely in one of the languages. An estimate from groups of three letters, uncertain between related languages such as Bosnian and Croatian: a text passes when a listed language is nearly as likely as the most likely one. Texts of fewer than 20 letters are skipped.',
  phases: ['input', 'output'],
  schema: Type.Object(
    {
      language: Type.Union([Code, Type.Array(Code, { minItems: 1, maxItems: 100 })], {
        examples: ['eng'],
        description: `One or more languages, as ISO 639-1 or 639-3 codes. Known: ${known.replaceAll(' ', ', ')}.`,
      }),
      not: Not,
    },
    strict,
  ),
  check({ language: asked }) {
    return [asked].flat().flatMap((code, index) => {
      if (knownLanguages.has(canonical(code))) return [];
      const path = Array.isArray(asked) ? `/language/${index}` : '/language';
      return [{ path, message: `is "${code}", which this check does not know; use one of ${known}` }];
    });
  },
  create({ language: asked, not }) {
    const wanted = new Set([asked].flat().map(canonical));
    return ({ text }) => {
      const shown = text.slice(0, 2000);
      // In writing without spaces, a few characters show the language.
      const letters =
        (shown.match(/\p{L}/gu) ?? []).length *
        (/[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]/.test(shown) ? 4 : 1);
      const guesses = letters < fewestLetters ? [] : francAll(shown, { minLength: 1 });
      const [first] = guesses;
      if (first === undefined || first[0] === 'und')
        return skipped('The text is too short to tell its language.');
      const holds = guesses.some(([code, score]) => score >= 0.95 && wanted.has(canonical(code)));
      const detected = canonical(first[0]) ?? first[0];
      const explanation = `The text is most likely in "${detected}".`;
      return verdictOf(holds, not, { explanation, detected });
    };
  },
});

/** Checks that estimate. */
export const heuristicChecks: readonly AnyCheck[] = [promptInjection, gibberish, language];
