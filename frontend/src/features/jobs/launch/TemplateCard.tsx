import { ActionIcon, Tooltip, UnstyledButton } from "@mantine/core";
import { Pin } from "lucide-react";
import { useTranslation } from "react-i18next";
import type { Preset, TemplatesChange } from "@/api/preferences";
import type { Template } from "@/api/types";
import { TemplateIcon } from "@/components/TemplateIcon";
import { useRefusal } from "@/hooks/use-refusal";
import { PresetList } from "./PresetList";
import classes from "@/components/Dashboard.module.css";

interface Props {
  template: Template;
  pinned: boolean;
  presets: readonly Preset[];
  /** Opens the launch form, with the values of a preset. */
  onOpen: (preset?: Preset) => void;
  /** Loads the form before it is opened. */
  onPrepare: () => void;
  onChange: (change: TemplatesChange) => void;
}

/** A template with its pin and its presets. */
export function TemplateCard({ template, pinned, presets, onOpen, onPrepare, onChange }: Props) {
  const { t } = useTranslation();
  const pin = () =>
    onChange((old) => ({
      ...old,
      pinned: old.pinned.includes(template.name) ? old.pinned.filter((name) => name !== template.name) : [...old.pinned, template.name],
    }));
  const { name, title } = template;
  const refusal = useRefusal();
  return (
    <div className={classes.template}>
      <UnstyledButton className={classes.templateOpen} onClick={() => onOpen()} onPointerEnter={onPrepare} onFocus={onPrepare} data-testid={`template-${name}`}>
        <TemplateIcon name={template.icon} session={template.type === "session"} />
        <span>
          <span className={classes.templateTitle}>{title}</span>
          <span className={classes.templateText}>{template.description}</span>
        </span>
      </UnstyledButton>
      <Tooltip label={refusal ?? (pinned ? t("Unpin") : t("Pin"))} multiline maw={280}>
        <ActionIcon
          className={classes.pin ?? ""}
          variant="subtle"
          disabled={refusal !== null}
          aria-pressed={pinned}
          aria-label={pinned ? t("Unpin {{title}}", { title }) : t("Pin {{title}}", { title })}
          onClick={pin}
          data-testid={`template-pin-${name}`}
        >
          <Pin size={15} fill={pinned ? "currentColor" : "none"} />
        </ActionIcon>
      </Tooltip>
      {presets.length > 0 && <PresetList title={title} presets={presets} onOpen={onOpen} onPrepare={onPrepare} onChange={onChange} />}
    </div>
  );
}
