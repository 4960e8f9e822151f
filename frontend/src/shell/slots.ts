/** Components that other parts of the portal add to every page. */
import type { ComponentType } from "react";
import { AnnouncementBanner } from "@/components/AnnouncementBanner";
import { ImpersonationBanner } from "@/components/ImpersonationBanner";
import { MaintenanceBanner } from "@/components/MaintenanceBanner";
import { Bell } from "@/components/notifications/Bell";

/** Above the page, from the top down: impersonation, maintenance, announcements. Each renders nothing without content. */
export const BANNERS: readonly ComponentType[] = [ImpersonationBanner, MaintenanceBanner, AnnouncementBanner];

/** In the header, before the user's menu. */
export const TOOLS: readonly ComponentType[] = [Bell];
