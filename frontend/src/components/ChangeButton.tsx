import { Button, type ButtonProps, type ElementProps } from "@mantine/core";
import { Refusal } from "@/components/Refusal";
import { useRefusal } from "@/hooks/use-refusal";

interface Props extends ButtonProps, ElementProps<"button", keyof ButtonProps> {
  "data-testid"?: string | undefined;
}

/** A button that changes something; disabled, with the reason, while an administrator impersonates the user. */
export function ChangeButton({ disabled, ...button }: Props) {
  const refusal = useRefusal();
  return (
    <Refusal reason={refusal}>
      <Button {...button} disabled={disabled === true || refusal !== null} />
    </Refusal>
  );
}
