// Two answers: the timelines of their plans.
import { zoomAll } from "./timeline.js";

zoomAll();
