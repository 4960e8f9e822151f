import { Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { templatePreferencesQuery, useSaveTemplates } from "@/api/preferences";
import type { JobFile, Template } from "@/api/types";
import { FormDialog } from "@/components/FormDialog";
import { notifyDone, notifyProblem } from "@/components/notify";
import { findPreset, withPreset } from "./templates";

interface Props {
  template: Template;
  file: JobFile;
  /** Name of the preset that the form was opened with. */
  name: string;
  onClose: () => void;
}

/** Saves the values of the launch form under a name. */
export function SavePresetModal({ template, file, name: initial, onClose }: Props) {
  const { t } = useTranslation();
  const presets = useQuery(templatePreferencesQuery).data?.presets ?? [];
  const save = useSaveTemplates((error) => notifyProblem(t("Could not save the presets"), error));
  const [text, setText] = useState(initial);
  const name = text.trim();
  const exists = findPreset(presets, template.name, name) !== undefined;
  return (
    <FormDialog
      title={t("Save as preset")}
      action={t("Save")}
      testId="preset-save"
      busy={save.isPending}
      disabled={name === ""}
      error={null}
      onClose={onClose}
      onSubmit={() =>
        save.mutate((old) => ({ ...old, presets: withPreset(old.presets, { name, file }) }), {
          onSuccess: () => {
            notifyDone(t("Preset {{name}} saved.", { name }));
            onClose();
          },
        })
      }
    >
      <Text size="sm" c="dimmed">
        {t("Stores the values of this form under a name. The preset appears on the card of {{title}}.", { title: template.title })}
      </Text>
      <TextInput
        label={t("Name")}
        description={exists ? t("This replaces the preset of this name.") : undefined}
        value={text}
        maxLength={60}
        onChange={(event) => setText(event.currentTarget.value)}
        data-autofocus
        data-testid="preset-name"
      />
    </FormDialog>
  );
}
