/** Texts in English, as on a first visit. */
import { startTexts } from "@/i18n";

await startTexts();
