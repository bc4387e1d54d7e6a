/**
 * The texts of another language for those of a module beside this file: the same names, each with a text. Functions take the
 * same arguments, and say themselves how their language counts and orders words. Its modules stand in a folder that is named
 * after it:
 *
 *     // texts/de/feedback.ts
 *     import type { feedback as english } from '@/texts/feedback';
 *     import type { Texts } from '@/texts/language';
 *
 *     export const feedback: Texts<typeof english> = { title: 'Rückmeldungen', … };
 */
export type Texts<English> = English extends string
  ? string
  : English extends (...given: infer Given) => string
    ? (...given: Given) => string
    : { readonly [Name in keyof English]: Texts<English[Name]> };
