import type { ReactNode } from "react";
import { CopyButton } from "@/components/CopyButton";

/** One name and value of a `dl`. */
export function DetailRow({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

interface IdentifierProps {
  /** The copied value; displayed unless `short` is set. */
  value: string;
  what: string;
  short?: string;
}

export function Identifier({ value, what, short }: IdentifierProps) {
  return (
    <>
      <span className="mono truncate" title={value} style={{ fontSize: 12.5 }}>
        {short ?? value}
      </span>
      <CopyButton what={what} text={value} />
    </>
  );
}
