import { Notifications } from "@mantine/notifications";

/** The area in which toasts appear. */
export function Toasts() {
  return <Notifications position="top-right" autoClose={6000} limit={4} />;
}
