import { useLocalStorage } from "@mantine/hooks";

/** Older entries are dropped to bound the browser's storage. */
const MAX_IDS = 200;

/** IDs of the dismissed cards of ended sessions in this browser. */
export function useDismissed(): { dismissed: ReadonlySet<string>; dismiss: (id: string) => void } {
  const [ids, setIds] = useLocalStorage<string[]>({
    key: "aitne-dismissed-sessions",
    defaultValue: [],
    getInitialValueInEffect: false,
  });
  return {
    dismissed: new Set(Array.isArray(ids) ? ids : []),
    dismiss: (id) => setIds((old) => [id, ...old.filter((entry) => entry !== id)].slice(0, MAX_IDS)),
  };
}
