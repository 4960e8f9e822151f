import { Notifications } from "@mantine/notifications";
import classes from "./Toasts.module.css";

/** The area in which toasts appear. */
export function Toasts() {
  return <Notifications position="bottom-left" autoClose={6000} limit={4} classNames={{ root: classes.toasts ?? "" }} />;
}
