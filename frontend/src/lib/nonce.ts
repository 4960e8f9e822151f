/**
 * Sets the page's nonce on style elements that scripts create, because the content security policy requires it and
 * libraries do not set it. Injected markup does not pass through `createElement` and gets no nonce.
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
