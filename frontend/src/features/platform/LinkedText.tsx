import { linkParts } from "./links";

/** Plain text whose web addresses are links. */
export function LinkedText({ children }: { children: string }) {
  return linkParts(children).map(({ text, href }, index) =>
    href === undefined ? (
      text
    ) : (
      <a key={index} href={href} target="_blank" rel="noreferrer" style={{ color: "inherit" }}>
        {text}
      </a>
    ),
  );
}
