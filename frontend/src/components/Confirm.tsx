import { lazy, Suspense, useState } from "react";
import type { ConfirmProps } from "@/components/ConfirmDialog";

/** Loaded when the first dialog opens, to keep its code out of the initial bundle. */
const ConfirmDialog = lazy(async () => ({ default: (await import("@/components/ConfirmDialog")).ConfirmDialog }));

/** A confirmation dialog for an irreversible action. */
export function Confirm(props: ConfirmProps) {
  const [mounted, setMounted] = useState(false);
  if (props.opened && !mounted) setMounted(true);
  return mounted ? (
    <Suspense>
      <ConfirmDialog {...props} />
    </Suspense>
  ) : null;
}
