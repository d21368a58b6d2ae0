package probe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"claudeops/internal/decide/health"
	"claudeops/internal/ops"
)

// condition is one statement about a JSON document:
//
//	$.status == "ok"
//	$.checks[0].latency_ms < 250
//	$["a key with spaces"].ready
//
// A path starts with $ and goes on with .key, ["key"] or [index]; a negative index counts from the end. It is compared
// by ==, !=, <, <=, > or >= with a JSON text, number, true, false or null. A path alone must be there and be neither
// false nor null. Order is defined for two numbers and for two texts.
type condition struct {
	text     string
	steps    []pathStep
	operator string // empty: the path alone
	value    any
}

// pathStep is a key, or an index if indexed is set.
type pathStep struct {
	key     string
	index   int
	indexed bool
}

func parseCondition(text string) (condition, error) {
	c := condition{text: strings.TrimSpace(text)}
	rest, ok := strings.CutPrefix(c.text, "$")
	if !ok {
		return c, fmt.Errorf("condition %q does not start with $", text)
	}
	for rest != "" && (rest[0] == '.' || rest[0] == '[') {
		step, after, err := parseStep(rest)
		if err != nil {
			return c, fmt.Errorf("condition %q: %w", text, err)
		}
		c.steps = append(c.steps, step)
		rest = after
	}
	if rest = strings.TrimSpace(rest); rest == "" {
		return c, nil
	}
	for _, operator := range []string{"==", "!=", "<=", ">=", "<", ">"} { // the long ones first
		after, found := strings.CutPrefix(rest, operator)
		if !found {
			continue
		}
		value, err := decodeJSON([]byte(after))
		switch value.(type) {
		case map[string]any, []any:
			err = errors.New("is not a plain value")
		}
		if err != nil {
			return c, fmt.Errorf("condition %q: %q is not a JSON text, number, true, false or null", text, strings.TrimSpace(after))
		}
		c.operator, c.value = operator, value
		return c, nil
	}
	return c, fmt.Errorf("condition %q: use ==, !=, <, <=, > or >= after the path", text)
}

func parseStep(s string) (step pathStep, rest string, err error) {
	if s[0] == '.' {
		end := strings.IndexAny(s[1:], ".[=!<> \t")
		if end < 0 {
			end = len(s) - 1
		}
		if end == 0 {
			return step, "", errors.New("a key is missing after the dot")
		}
		return pathStep{key: s[1 : end+1]}, s[end+1:], nil
	}
	if strings.HasPrefix(s, `["`) {
		quoted, err := strconv.QuotedPrefix(s[1:])
		if err != nil || !strings.HasPrefix(s[1+len(quoted):], "]") {
			return step, "", errors.New(`a quoted key must end with "]`)
		}
		key, err := strconv.Unquote(quoted)
		return pathStep{key: key}, s[len(quoted)+2:], err
	}
	inner, rest, closed := strings.Cut(s[1:], "]")
	index, err := strconv.Atoi(inner)
	if !closed || err != nil {
		return step, "", fmt.Errorf("%q is not an index", inner)
	}
	return pathStep{index: index, indexed: true}, rest, nil
}

// check returns in a few words why the condition does not hold, or nothing.
func (c condition) check(document any) string {
	found, ok := c.find(document)
	switch {
	case !ok && c.operator == "":
		return c.text + " is missing"
	case !ok:
		return fmt.Sprintf("%s does not hold: it is missing", c.text)
	case c.operator == "" && (found == nil || found == false):
		return fmt.Sprintf("%s is %s", c.text, shown(found))
	case c.operator != "" && !c.holds(found):
		return fmt.Sprintf("%s does not hold: it is %s", c.text, shown(found))
	}
	return ""
}

func (c condition) find(document any) (any, bool) {
	for _, s := range c.steps {
		switch at := document.(type) {
		case map[string]any:
			value, ok := at[s.key]
			if s.indexed || !ok {
				return nil, false
			}
			document = value
		case []any:
			i := s.index
			if i < 0 {
				i += len(at)
			}
			if !s.indexed || i < 0 || i >= len(at) {
				return nil, false
			}
			document = at[i]
		default:
			return nil, false
		}
	}
	return document, true
}

// holds compares what was found. Two numbers and two texts have an order; other values are equal or not.
func (c condition) holds(found any) bool {
	equal, order, sorted := found == c.value, 0, false
	switch a := found.(type) {
	case string:
		var b string
		b, sorted = c.value.(string)
		order = strings.Compare(a, b)
	case json.Number:
		b, isNumber := c.value.(json.Number)
		x, errX := a.Float64()
		y, errY := b.Float64()
		sorted, order = isNumber && errX == nil && errY == nil, cmp.Compare(x, y)
		equal = equal || sorted && order == 0
	}
	switch c.operator {
	case "==":
		return equal
	case "!=":
		return !equal
	case "<":
		return sorted && order < 0
	case "<=":
		return sorted && order <= 0
	case ">":
		return sorted && order > 0
	default:
		return sorted && order >= 0
	}
}

func shown(v any) string {
	switch v.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "unreadable"
	}
	return string(text)
}

// decodeJSON reads exactly one JSON value and keeps numbers as they are written.
func decodeJSON(raw []byte) (any, error) {
	if !json.Valid(raw) {
		return nil, errors.New("not JSON")
	}
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.UseNumber()
	var v any
	err := decoder.Decode(&v)
	return v, err
}

// Validate says what is wrong with a probe as it is configured, so that it is found at start and not as a
// service that stays down.
func Validate(spec ops.ProbeSpec) []error {
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
	case "command":
		if len(spec.Command) == 0 || spec.Command[0] == "" {
			wrong("a command probe needs command")
		}
	case ops.ProbeHeartbeat:
		if _, err := health.ParseRhythm(spec); err != nil {
			wrong("%w", err)
		}
	}
	return problems
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
