import { useLocalStorage } from "@mantine/hooks";

/** Older ones are forgotten, so that the browser's storage does not grow for ever. */
const MOST = 200;

/** Ids of the ended session cards that were put away, on this browser. */
export function useDismissed(): { dismissed: ReadonlySet<string>; dismiss: (id: string) => void } {
  const [ids, setIds] = useLocalStorage<string[]>({
    key: "aitne-dismissed-sessions",
    defaultValue: [],
    getInitialValueInEffect: false,
  });
  return {
    dismissed: new Set(Array.isArray(ids) ? ids : []),
    dismiss: (id) => setIds((old) => [id, ...old.filter((entry) => entry !== id)].slice(0, MOST)),
  };
}
