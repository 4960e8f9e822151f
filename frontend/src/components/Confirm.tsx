import { lazy, Suspense, useState } from "react";
import type { ConfirmProps } from "@/components/ConfirmDialog";

/** Fetched when somebody is asked for the first time: dialogs are much code for a page that has none. */
const ConfirmDialog = lazy(async () => ({ default: (await import("@/components/ConfirmDialog")).ConfirmDialog }));

/** Asks before something that cannot be taken back. */
export function Confirm(props: ConfirmProps) {
  const [asked, setAsked] = useState(false);
  if (props.opened && !asked) setAsked(true);
  return asked ? (
    <Suspense>
      <ConfirmDialog {...props} />
    </Suspense>
  ) : null;
}
