// The comparison of two answers: timelines of their plans.
import { zoomAll } from "./timeline.js";

zoomAll();
