import { Collapse, Switch, TagsInput, Textarea, UnstyledButton } from "@mantine/core";
import { ChevronDown, ChevronRight } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { ContainerValues, EnvironmentValues, LaunchValues } from "./launch";
import { PlacementFields } from "./PlacementFields";
import classes from "./LaunchDrawer.module.css";

interface Props {
  values: LaunchValues;
  bare: boolean;
  errors: Partial<Record<string, string>>;
  onChange: (change: Partial<LaunchValues>) => void;
}

const FIELDS = ["modules", "setup"];
const PLACEMENT_FIELDS = ["compact", "onNodes", "notOnNodes"];
const MONO = { input: { fontFamily: "var(--mono)", fontSize: 13.5 } };

/** Optional settings: the placement, and modules and setup on the node, or the isolation of a container. */
export function AdvancedFields({ values, bare, errors, onChange }: Props) {
  const { t } = useTranslation();
  const [open, setOpen] = useState(false);
  const invalid = (bare ? [...FIELDS, ...PLACEMENT_FIELDS] : PLACEMENT_FIELDS).some((field) => errors[field] !== undefined);
  const expanded = open || invalid;
  return (
    <fieldset className={classes.group}>
      <legend className={classes.legend}>
        <UnstyledButton
          className={classes.fold}
          aria-expanded={expanded}
          onClick={() => setOpen(!expanded)}
          data-testid="launch-advanced"
        >
          {expanded ? <ChevronDown size={14} aria-hidden /> : <ChevronRight size={14} aria-hidden />} {t("Advanced")}
        </UnstyledButton>
      </legend>
      <Collapse expanded={expanded}>
        <div className={classes.group}>
          <PlacementFields
            value={values.placement}
            several={values.nodes > 1}
            errors={errors}
            onChange={(change) => onChange({ placement: { ...values.placement, ...change } })}
          />
          {bare ? (
            <EnvironmentFields
              value={values.environment}
              errors={errors}
              onChange={(change) => onChange({ environment: { ...values.environment, ...change } })}
            />
          ) : (
            <ContainerFields
              value={values.container}
              onChange={(change) => onChange({ container: { ...values.container, ...change } })}
            />
          )}
        </div>
      </Collapse>
    </fieldset>
  );
}

interface EnvironmentProps {
  value: EnvironmentValues;
  errors: Partial<Record<string, string>>;
  onChange: (change: Partial<EnvironmentValues>) => void;
}

function EnvironmentFields({ value, errors, onChange }: EnvironmentProps) {
  const { t } = useTranslation();
  return (
    <>
      <TagsInput
        label={t("Modules")}
        description={t("Environment modules to load, e.g. cuda/12.6. Press Enter after each.")}
        value={value.modules}
        error={errors.modules}
        maxTags={50}
        clearable
        acceptValueOnBlur
        splitChars={[",", " "]}
        onChange={(modules) => onChange({ modules })}
        styles={MONO}
        data-testid="launch-modules"
      />
      <Textarea
        label={t("Setup")}
        description={t("Bash commands to run before the program. The job fails if a command fails.")}
        value={value.setup}
        error={errors.setup}
        autosize
        minRows={2}
        maxRows={10}
        spellCheck={false}
        onChange={(event) => onChange({ setup: event.currentTarget.value })}
        styles={MONO}
        data-testid="launch-setup"
      />
    </>
  );
}

interface ContainerProps {
  value: ContainerValues;
  onChange: (change: Partial<ContainerValues>) => void;
}

function ContainerFields({ value, onChange }: ContainerProps) {
  const { t } = useTranslation();
  return (
    <>
      <Switch
        label={t("Writable container file system")}
        description={t("Changes are discarded when the job ends. Home and project folders are always writable.")}
        checked={value.writable}
        onChange={(event) => onChange({ writable: event.currentTarget.checked })}
        data-testid="launch-writable"
      />
      <Switch
        label={t("Network")}
        description={t("If disabled, only the loopback interface is available.")}
        checked={value.network}
        onChange={(event) => onChange({ network: event.currentTarget.checked })}
        data-testid="launch-network"
      />
    </>
  );
}
