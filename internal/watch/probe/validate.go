package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// Validate says what is wrong with a probe as it is configured, so that it is found at start and not as a
// service that stays down.
func Validate(spec ops.ProbeSpec) error {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if !slices.Contains(Types(), spec.Type) {
		wrong("unknown probe type %q: use %s", spec.Type, strings.Join(Types(), ", "))
	}
	if spec.Timeout < 0 || spec.SlowAfter < 0 || spec.Interval < 0 || spec.FailAfter < 0 || spec.RecoverAfter < 0 {
		wrong("timeout, slow_after, interval, fail_after and recover_after must not be negative")
	}
	switch spec.Type {
	case "http":
		problems = append(problems, validateHTTP(spec)...)
	case "dns":
		if spec.Host == "" {
			wrong("a dns probe needs host")
		}
		if !slices.Contains(recordTypes(), record(spec)) {
			wrong("unknown record type %q: use %s", spec.Record, strings.Join(recordTypes(), ", "))
		}
	case "container":
		if !containerName.MatchString(spec.Container) {
			wrong("%q is not a container name", spec.Container)
		}
		if spec.Socket != "" && !filepath.IsAbs(spec.Socket) {
			wrong("socket %q is not an absolute path", spec.Socket)
		}
	case "postgres", "mysql":
		if u, err := databaseAddress(spec); err != nil {
			wrong("%w", err)
		} else if db, err := defaultDatabases()[spec.Type](context.Background(), u); err != nil {
			wrong("%s: %s", withoutPassword(spec.URL), withoutSecrets(spec, err.Error()))
		} else {
			_ = db.Close()
		}
	case "redis":
		if _, err := redisTarget(spec); err != nil {
			wrong("%w", err)
		}
	case "tcp":
		if _, _, err := net.SplitHostPort(spec.Address); err != nil {
			wrong("%q is not host:port", spec.Address)
		}
	case "systemd":
		if spec.Unit == "" {
			wrong("a systemd probe needs unit")
		}
	case "process":
		if spec.Process == "" || strings.Contains(spec.Process, "/") {
			wrong("a process probe needs the program's name without its folder")
		}
	case "command":
		if len(spec.Command) == 0 || spec.Command[0] == "" {
			wrong("a command probe needs command")
		}
	}
	return errors.Join(problems...)
}

func validateHTTP(spec ops.ProbeSpec) []error {
	var problems []error
	if u, err := url.Parse(spec.URL); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		problems = append(problems, fmt.Errorf("%q is not an http or https address", withoutPassword(spec.URL)))
	}
	if _, err := regexp.Compile(spec.ExpectRegexp); err != nil {
		problems = append(problems, fmt.Errorf("expect_regexp: %w", err))
	}
	for _, text := range spec.ExpectJSON {
		if _, err := parseCondition(text); err != nil {
			problems = append(problems, fmt.Errorf("expect_json: %w", err))
		}
	}
	for name, value := range spec.Headers {
		// The value may be a secret and is not repeated.
		if name == "" || strings.ContainsAny(name, " :\r\n") || strings.ContainsAny(value, "\r\n\x00") {
			problems = append(problems, fmt.Errorf("header %q has a name or value that cannot be sent", http.CanonicalHeaderKey(name)))
		}
	}
	return problems
}
