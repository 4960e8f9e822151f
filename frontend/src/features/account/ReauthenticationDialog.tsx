import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { setReauthenticate } from "@/api/client";

const ReauthenticationForm = lazy(async () => ({ default: (await import("./ReauthenticationForm")).ReauthenticationForm }));

/** Asks for the password or a code where a change requires a recent authentication; the request is then sent again. */
export function ReauthenticationDialog() {
  const [opened, setOpened] = useState(false);
  const waiting = useRef<((confirmed: boolean) => void)[]>([]);
  useEffect(() => {
    setReauthenticate(
      () =>
        new Promise<boolean>((resolve) => {
          waiting.current.push(resolve);
          setOpened(true);
        }),
    );
    return () => setReauthenticate(null);
  }, []);
  const finish = (confirmed: boolean) => {
    setOpened(false);
    for (const resolve of waiting.current.splice(0)) resolve(confirmed);
  };
  if (!opened) return null;
  return (
    <Suspense fallback={null}>
      <ReauthenticationForm onConfirmed={() => finish(true)} onClose={() => finish(false)} />
    </Suspense>
  );
}
