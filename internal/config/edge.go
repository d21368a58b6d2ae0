package config

import "strings"

// readToken checks the token that may only look against the one that may do everything.
func (l *loader) readToken(c *Config) {
	at := c.origins["api_read_token"]
	switch {
	case c.APIReadToken == "":
	case c.APIToken == "":
		c.Notices = append(c.Notices, "api_read_token is not used: without api_token everybody on this machine may do everything")
	case c.APIToken == c.APIReadToken:
		l.problems.add(at, "api_read_token", "it is the same as api_token, so it could do everything", "give it another value")
	}
}

// traces reports whether the environment names a collector, with the variables that every OpenTelemetry program reads.
func traces(vars map[string]string) bool {
	if strings.EqualFold(strings.TrimSpace(vars["OTEL_SDK_DISABLED"]), "true") || strings.TrimSpace(vars["OTEL_TRACES_EXPORTER"]) == "none" {
		return false
	}
	return strings.TrimSpace(vars["OTEL_EXPORTER_OTLP_ENDPOINT"]) != "" || strings.TrimSpace(vars["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]) != ""
}
