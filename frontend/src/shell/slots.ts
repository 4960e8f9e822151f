/** What other parts of the portal put around every page: one line each. */
import type { ComponentType } from "react";
import { AnnouncementBanner } from "@/components/AnnouncementBanner";
import { ImpersonationBanner } from "@/components/ImpersonationBanner";
import { MaintenanceBanner } from "@/components/MaintenanceBanner";
import { Bell } from "@/components/notifications/Bell";

/** Above the page, from the top down: who is impersonated, announcements, maintenance. Each draws nothing when there is nothing to say. */
export const BANNERS: readonly ComponentType[] = [ImpersonationBanner, MaintenanceBanner, AnnouncementBanner];

/** In the header, before the user's menu. */
export const TOOLS: readonly ComponentType[] = [Bell];
