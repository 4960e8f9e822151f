import { Drawer as MantineDrawer, type DrawerProps } from "@mantine/core";
import { useFocusOrigin } from "@/hooks/use-focus-origin";

/** A dialog at the side of the page. The focus returns to what opened it. */
export function Drawer(props: DrawerProps) {
  useFocusOrigin(props.opened);
  return <MantineDrawer {...props} returnFocus={false} />;
}
