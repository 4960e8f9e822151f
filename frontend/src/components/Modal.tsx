import { Modal as MantineModal, type ModalProps } from "@mantine/core";
import { useFocusOrigin } from "@/hooks/use-focus-origin";

/** A dialog in the middle of the page. The focus returns to what opened it. */
export function Modal(props: ModalProps) {
  useFocusOrigin(props.opened);
  return <MantineModal {...props} returnFocus={false} />;
}
