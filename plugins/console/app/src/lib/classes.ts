import { clsx, type ClassValue } from 'clsx';
import { twMerge } from 'tailwind-merge';

/** Joins class names; of two that contradict each other the last one counts. */
export function classes(...values: readonly ClassValue[]): string {
  return twMerge(clsx(values));
}
