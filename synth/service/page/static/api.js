// Shows the OpenAPI document of this server.
Redoc.init("/openapi.json", { nativeScrollbars: true, requiredPropsFirst: true }, document.getElementById("reference"));
