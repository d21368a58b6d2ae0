package config

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"claudeops/internal/ops"
)

// raw is a value as it was given, before it means anything.
type raw struct {
	at    origin
	text  string
	items []raw // the entries, when it was given as a YAML list
	list  bool
	dir   string // what a relative path is relative to
}

// entries splits a value into its list entries: a YAML list as it is, a text by split.
func (v raw) entries(split func(string) []string) []raw {
	if v.list {
		return v.items
	}
	var out []raw
	for _, part := range split(v.text) {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, raw{at: v.at, text: part, dir: v.dir})
		}
	}
	return out
}

// kind is what a setting accepts, and how it is read.
type kind struct {
	name  string // in the reference
	list  bool   // a YAML list is accepted
	parse func(p places, v raw) (any, []fault)
}

func wrong(v raw, fix, format string, args ...any) []fault {
	return []fault{{at: v.at, message: fmt.Sprintf(format, args...), fix: fix}}
}

func textKind() kind {
	return kind{name: "text", parse: func(_ places, v raw) (any, []fault) { return v.text, nil }}
}

func boolKind() kind {
	return kind{name: "true or false", parse: func(_ places, v raw) (any, []fault) {
		switch strings.ToLower(v.text) {
		case "true", "1", "yes", "on":
			return true, nil
		case "false", "0", "no", "off":
			return false, nil
		}
		return nil, wrong(v, "give true or false", "%q is neither true nor false", v.text)
	}}
}

func wholeKind(low, high int) kind {
	name := fmt.Sprintf("%d to %d", low, high)
	return kind{name: name, parse: func(_ places, v raw) (any, []fault) {
		n, err := strconv.Atoi(v.text)
		if err != nil {
			return nil, wrong(v, "give "+name, "%q is not a whole number", v.text)
		}
		if n < low || n > high {
			return nil, wrong(v, "give "+name, "%d is outside %d to %d", n, low, high)
		}
		return n, nil
	}}
}

// durationKind reads whole seconds or a Go duration of at least least.
func durationKind(least time.Duration) kind {
	const fix = "give whole seconds, or a duration such as 90s, 30m or 1h"
	return kind{name: "seconds or duration", parse: func(_ places, v raw) (any, []fault) {
		var d time.Duration
		if n, err := strconv.ParseInt(v.text, 10, 64); err == nil {
			if n > math.MaxInt64/int64(time.Second) {
				return nil, wrong(v, fix, "%s seconds are too many", v.text)
			}
			d = time.Duration(n) * time.Second
		} else if d, err = time.ParseDuration(v.text); err != nil {
			return nil, wrong(v, fix, "%q is not a duration", v.text)
		}
		if d <= 0 {
			return nil, wrong(v, fix, "%q is not above zero", v.text)
		}
		if d < least {
			return nil, wrong(v, fmt.Sprintf("give at least %s", least), "%q is below %s", v.text, least)
		}
		return d, nil
	}}
}

func shareKind() kind {
	return kind{name: "share above 0, at most 1", parse: func(_ places, v raw) (any, []fault) {
		f, err := strconv.ParseFloat(v.text, 64)
		if err != nil || math.IsNaN(f) {
			return nil, wrong(v, "give a share such as 0.80", "%q is not a number", v.text)
		}
		if f <= 0 || f > 1 {
			return nil, wrong(v, "give a share such as 0.80", "%s is not above 0 and at most 1", v.text)
		}
		return f, nil
	}}
}

func dollarsKind() kind {
	return kind{name: "US dollars", parse: func(_ places, v raw) (any, []fault) {
		f, err := strconv.ParseFloat(v.text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, wrong(v, "give an amount such as 5 or 2.50; 0 means no limit", "%q is not an amount", v.text)
		}
		if f < 0 {
			return nil, wrong(v, "give 0 for no limit", "%s is below zero", v.text)
		}
		return f, nil
	}}
}

// waitKind reads a duration that may be 0, which means none.
func waitKind() kind {
	duration := durationKind(time.Second)
	return kind{name: duration.name + ", or 0", parse: func(p places, v raw) (any, []fault) {
		if v.text == "0" {
			return time.Duration(0), nil
		}
		return duration.parse(p, v)
	}}
}

// choiceKind reads one of a few words.
func choiceKind(what string, words ...string) kind {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "`" + w + "`"
	}
	return kind{name: oneOf(quoted), parse: func(_ places, v raw) (any, []fault) {
		if slices.Contains(words, v.text) {
			return v.text, nil
		}
		fix := "give " + oneOf(words)
		if s := suggest(v.text, words); s != "" {
			fix = "did you mean " + s + "?"
		}
		return nil, wrong(v, fix, "%q is not %s", v.text, what)
	}}
}

func oneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func modeKind() kind {
	return choiceKind("an escalation mode", string(ops.ContextResume), string(ops.ContextHandoff))
}

func independenceKind() kind {
	return choiceKind("a degree of independence", string(ops.IndependenceNone), string(ops.IndependenceHandler), string(ops.IndependenceFamily))
}

// The name goes into an argument list, so it must not look like an option.
var modelName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@\[\]-]*$`)

func modelKind() kind {
	return kind{name: "model name", parse: func(_ places, v raw) (any, []fault) {
		if !modelName.MatchString(v.text) {
			return nil, wrong(v, "give a name such as haiku, or a full model id", "%q is not a model name", v.text)
		}
		return v.text, nil
	}}
}

func listenKind() kind {
	const fix = "give host:port, such as 127.0.0.1:8080"
	return kind{name: "host:port", parse: func(_ places, v raw) (any, []fault) {
		_, port, err := net.SplitHostPort(v.text)
		if err != nil {
			return nil, wrong(v, fix, "%q is not host:port", v.text)
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return nil, wrong(v, fix, "%q is not a port number", port)
		}
		return v.text, nil
	}}
}

// loopback reports whether a listen address can only be reached from this machine.
func loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

func tokenKind() kind {
	return kind{name: "text without blanks", parse: func(_ places, v raw) (any, []fault) {
		if strings.ContainsFunc(v.text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
			return nil, wrong(v, "give one word", "the value holds blanks or control characters")
		}
		return v.text, nil
	}}
}

func webURLKind() kind {
	return kind{name: "http or https URL", parse: func(_ places, v raw) (any, []fault) {
		if !webURL(v.text) {
			// The text may hold a password: it is not repeated.
			return nil, wrong(v, "give a URL such as http://127.0.0.1:8000", "the value is not an http or https URL")
		}
		return v.text, nil
	}}
}

func webURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}

func databaseKind() kind {
	const fix = "give postgres://user:password@host:5432/database, or remove it: then SQLite in the state folder is used"
	return kind{name: "`postgres://` URL", parse: func(_ places, v raw) (any, []fault) {
		u, err := url.Parse(v.text)
		if err != nil || u.Hostname() == "" || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
			return nil, wrong(v, fix, "the value is not a postgres:// URL")
		}
		return v.text, nil
	}}
}

func appriseKind() kind {
	return kind{name: "URLs, separated by blanks or newlines", list: true, parse: func(_ places, v raw) (any, []fault) {
		var urls []string
		var faults []fault
		for i, e := range v.entries(strings.Fields) {
			scheme, rest, ok := strings.Cut(e.text, "://")
			if !ok || scheme == "" || rest == "" || strings.ContainsFunc(e.text, unicode.IsSpace) {
				// An entry is a secret as a whole, so it is named by its place.
				faults = append(faults, wrong(e, "give Apprise URLs such as mailto://… or ntfy://…", "entry %d is not a URL", i+1)...)
				continue
			}
			urls = append(urls, e.text)
		}
		return urls, faults
	}}
}

func variableNamesKind() kind {
	return kind{name: "variable names", list: true, parse: func(_ places, v raw) (any, []fault) {
		var names []string
		var faults []fault
		for _, e := range v.entries(splitAtCommas) {
			switch {
			case !variableName.MatchString(e.text):
				faults = append(faults, wrong(e, "give names only, such as DOCKER_HOST", "%q is not the name of an environment variable", e.text)...)
			case e.text == "HOME" || e.text == "CLAUDE_CONFIG_DIR" || (strings.HasPrefix(e.text, ownPrefix) && !strings.HasPrefix(e.text, demoPrefix)):
				faults = append(faults, wrong(e, "remove it", "%s is set by the supervisor for every agent", e.text)...)
			default:
				names = append(names, e.text)
			}
		}
		return names, faults
	}}
}

func secretsKind() kind {
	return kind{name: "list of values or variable names", list: true, parse: func(_ places, v raw) (any, []fault) {
		var out []string
		lines := func(s string) []string { return strings.Split(s, "\n") }
		for _, e := range v.entries(lines) {
			out = append(out, e.text)
		}
		return out, nil
	}}
}

func splitAtCommas(s string) []string { return strings.Split(s, ",") }
