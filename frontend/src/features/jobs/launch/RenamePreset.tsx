import { TextInput } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { Preset } from "@/api/preferences";
import { FormDialog } from "@/components/FormDialog";

interface Props {
  preset: Preset;
  /** Names of all presets of the template. */
  taken: string[];
  onClose: () => void;
  onRename: (name: string) => void;
}

/** Renames a preset. */
export function RenamePreset({ preset, taken, onClose, onRename }: Props) {
  const { t } = useTranslation();
  const [name, setName] = useState(preset.name);
  const next = name.trim();
  const exists = next !== preset.name && taken.includes(next);
  return (
    <FormDialog
      title={t("Rename preset")}
      action={t("Rename")}
      busy={false}
      disabled={next === "" || exists}
      error={null}
      onClose={onClose}
      onSubmit={() => {
        onRename(next);
        onClose();
      }}
    >
      <TextInput
        label={t("Name")}
        value={name}
        maxLength={60}
        error={exists ? t("A preset of this name exists. Choose another name.") : null}
        onChange={(event) => setName(event.currentTarget.value)}
        data-autofocus
      />
    </FormDialog>
  );
}
