/** A text as parts: plain text, and the web addresses in it. */
export interface TextPart {
  text: string;
  /** Set for a web address. */
  href?: string;
}

const ADDRESS = /https?:\/\/[^\s<>"']+/g;

/** The parts of a text; punctuation after an address belongs to the sentence. */
export function linkParts(text: string): TextPart[] {
  const parts: TextPart[] = [];
  let end = 0;
  for (const match of text.matchAll(ADDRESS)) {
    const href = match[0].replace(/[.,;:!?)\]]+$/, "");
    if (match.index > end) parts.push({ text: text.slice(end, match.index) });
    parts.push({ text: href, href });
    end = match.index + href.length;
  }
  if (end < text.length) parts.push({ text: text.slice(end) });
  return parts;
}
