import { Notifications } from "@mantine/notifications";

/** Where notices appear, whoever shows them. */
export function Notices() {
  return <Notifications position="top-right" autoClose={6000} limit={4} />;
}
