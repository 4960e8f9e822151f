import { Tooltip } from "@mantine/core";
import type { ReactNode } from "react";

/** A disabled control with the reason in a tooltip and for screen readers; without a reason just the control. */
export function Refusal({ reason, children }: { reason: string | null; children: ReactNode }) {
  if (reason === null) return children;
  return (
    <Tooltip label={reason} multiline maw={280}>
      <span>
        {children}
        <span className="visually-hidden">{reason}</span>
      </span>
    </Tooltip>
  );
}
