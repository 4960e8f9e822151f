/**
 * The content security policy lets style elements in only with the page's nonce, of which libraries know
 * nothing: what scripts of this page make gets it. What text could smuggle into the page is not made this way.
 */
export function nonceStyles(): void {
  const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce;
  if (nonce === undefined || nonce === "") return;
  const page: { createElement: (name: string, options?: ElementCreationOptions) => HTMLElement } = document;
  const create = page.createElement.bind(document);
  page.createElement = (name, options) => {
    const element = create(name, options);
    if (element instanceof HTMLStyleElement) element.nonce = nonce;
    return element;
  };
}
