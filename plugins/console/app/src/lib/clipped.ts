/** The texts that a title was made for, by their elements. */
const titled = new WeakMap<HTMLElement, string>();

/** Whether an element or one within a title of its own says it already. */
function isTold(element: HTMLElement): boolean {
  const of = element.closest<HTMLElement>('[title]');
  return (of !== null && titled.get(of) === undefined) || element.querySelector('[title]') !== null;
}

/**
 * Gives the text that is cut at the pointer, or at the focus, its whole as a title: every table, badge and name is cut at
 * the room that it has, and only the drawn page knows which.
 */
function tell({ target }: Event): void {
  if (!(target instanceof Element)) return;
  for (let at: Element | null = target; at !== null && at !== document.body; at = at.parentElement) {
    if (!(at instanceof HTMLElement) || getComputedStyle(at).textOverflow !== 'ellipsis') continue;
    const text = at.scrollWidth > at.clientWidth ? at.innerText.trim() : '';
    if (text !== '' && !isTold(at)) {
      at.title = text;
      titled.set(at, text);
    } else if (titled.get(at) !== undefined && titled.get(at) !== text) {
      // Its element has another text by now, or more room.
      titled.delete(at);
      at.removeAttribute('title');
    }
    return;
  }
}

/** Begins it for the whole page; returns what ends it. */
export function tellClippedTexts(): () => void {
  document.addEventListener('mouseover', tell, { passive: true });
  document.addEventListener('focusin', tell, { passive: true });
  return () => {
    document.removeEventListener('mouseover', tell);
    document.removeEventListener('focusin', tell);
  };
}
