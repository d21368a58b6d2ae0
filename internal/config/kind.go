package config

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
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

// kind is what a field accepts, how it is read, and how it is shown.
type kind[V any] struct {
	name   string // in the reference
	list   bool   // a YAML list is accepted
	words  []string
	schema map[string]any
	parse  func(p places, v raw) (V, []fault)
	format func(V) string // nil: the usual form
}

func (k kind[V]) show(v V) string {
	if k.format != nil {
		return k.format(v)
	}
	return fmt.Sprint(v)
}

// convert makes a kind of another type.
func convert[A, B any](k kind[A], to func(A) B, format func(B) string) kind[B] {
	return kind[B]{name: k.name, list: k.list, words: k.words, schema: k.schema, format: format, parse: func(p places, v raw) (B, []fault) {
		got, faults := k.parse(p, v)
		if faults != nil {
			var none B
			return none, faults
		}
		return to(got), nil
	}}
}

// optional makes a kind whose value can be missing where its zero value means something.
func optional[V any](k kind[V]) kind[*V] {
	return convert(k, func(v V) *V { return &v }, func(v *V) string {
		if v == nil {
			return ""
		}
		return k.show(*v)
	})
}

// listOf reads several values of one kind. A text is split.
func listOf[V any](name string, split func(string) []string, one kind[V]) kind[[]V] {
	return kind[[]V]{
		name: name, list: true, schema: listSchema(one.schema),
		parse: func(p places, v raw) ([]V, []fault) {
			out := []V{}
			var faults []fault
			for _, e := range v.entries(split) {
				got, bad := one.parse(p, e)
				out, faults = append(out, got), append(faults, bad...)
			}
			return out, faults
		},
		format: func(vs []V) string {
			words := ops.Map(vs, one.show)
			return strings.Join(words, ",")
		},
	}
}

func splitAtCommas(s string) []string { return strings.Split(s, ",") }
func splitAtLines(s string) []string  { return strings.Split(s, "\n") }
func whole(s string) []string         { return []string{s} }

func wrong(v raw, fix, format string, args ...any) []fault {
	return []fault{{at: v.at, message: fmt.Sprintf(format, args...), fix: fix}}
}

// checked reads a text that must pass a check. A text that can hold a password is not repeated in the message.
func checked(name, fix, message string, repeat bool, check func(string) bool) kind[string] {
	return kind[string]{name: name, schema: singleSchema(), parse: func(_ places, v raw) (string, []fault) {
		switch {
		case check(v.text):
			return v.text, nil
		case repeat:
			return "", wrong(v, fix, "%q is %s", v.text, message)
		default:
			return "", wrong(v, fix, "%s", message)
		}
	}}
}

// matching reads a text of a certain form.
func matching(name, expr, what, fix string) kind[string] {
	form := ops.Pattern(expr)
	k := checked(name, fix, "not "+what, true, func(s string) bool { return form().MatchString(s) })
	k.schema = map[string]any{"type": []any{"string", "number"}, "pattern": expr}
	return k
}

func textKind() kind[string] {
	return checked("text", "", "", false, func(string) bool { return true })
}

func wordsKind(name string) kind[[]string] {
	return listOf(name+", separated by commas", splitAtCommas, textKind())
}

// textsKind is a list of texts; a single one is a list of one.
func textsKind(name string) kind[[]string] { return listOf(name, whole, textKind()) }

// strictListKind is a list that must be written as one.
func strictListKind(name string) kind[[]string] {
	k := textsKind(name)
	k.schema = arrayOf(singleSchema())
	parse := k.parse
	k.parse = func(p places, v raw) ([]string, []fault) {
		if !v.list {
			return nil, wrong(v, "begin each entry with a dash", "expected a list, found a single value")
		}
		return parse(p, v)
	}
	return k
}

func boolKind() kind[bool] {
	schema := map[string]any{"type": []any{"boolean", "string"}, "enum": []any{true, false, "yes", "no", "on", "off"}}
	return kind[bool]{name: "true or false", schema: schema, parse: func(_ places, v raw) (bool, []fault) {
		switch strings.ToLower(v.text) {
		case "true", "1", "yes", "on":
			return true, nil
		case "false", "0", "no", "off":
			return false, nil
		}
		return false, wrong(v, "give true or false", "%q is neither true nor false", v.text)
	}}
}

func intKind[V ~int | ~int64](low, high V) kind[V] {
	name := fmt.Sprintf("%d to %d", low, high)
	schema := map[string]any{"type": "integer", "minimum": int64(low), "maximum": int64(high)}
	format := func(v V) string { return strconv.FormatInt(int64(v), 10) }
	return kind[V]{name: name, schema: schema, format: format, parse: func(_ places, v raw) (V, []fault) {
		n, err := strconv.ParseInt(v.text, 10, 64)
		if err != nil {
			return 0, wrong(v, "give "+name, "%q is not a whole number", v.text)
		}
		if n < int64(low) || n > int64(high) {
			return 0, wrong(v, "give "+name, "%d is outside %s", n, name)
		}
		return V(n), nil
	}}
}

// limitKind reads how often something may happen in which time.
func limitKind(action string) kind[ops.CooldownLimit] {
	const fix = "give a count and a time such as 2 per 4h"
	count, window := intKind(0, 1000), durationKind(time.Minute)
	return kind[ops.CooldownLimit]{
		name: "count per time", schema: map[string]any{"type": "string", "pattern": `^\d+ per \S+$`},
		parse: func(p places, v raw) (ops.CooldownLimit, []fault) {
			out := ops.CooldownLimit{Action: action}
			many, long, both := strings.Cut(v.text, " per ")
			if !both {
				return out, wrong(v, fix, "%q has no time", v.text)
			}
			var faults, more []fault
			out.Count, faults = count.parse(p, raw{at: v.at, text: many})
			out.Window, more = window.parse(p, raw{at: v.at, text: long})
			return out, append(faults, more...)
		},
		format: func(l ops.CooldownLimit) string { return fmt.Sprintf("%d per %s", l.Count, window.show(l.Window)) },
	}
}

// durationKind reads whole seconds or a Go duration of at least least.
func durationKind(least time.Duration) kind[time.Duration] {
	const fix = "give whole seconds, or a duration such as 90s, 30m or 1h"
	schema := map[string]any{"type": []any{"string", "integer"}, "minimum": max(1, int64(least/time.Second))}
	return kind[time.Duration]{name: "seconds or duration", schema: schema, parse: func(_ places, v raw) (time.Duration, []fault) {
		var d time.Duration
		if n, err := strconv.ParseInt(v.text, 10, 64); err == nil {
			if n > math.MaxInt64/int64(time.Second) {
				return 0, wrong(v, fix, "%s seconds are too many", v.text)
			}
			d = time.Duration(n) * time.Second
		} else if d, err = time.ParseDuration(v.text); err != nil {
			return 0, wrong(v, fix, "%q is not a duration", v.text)
		}
		if d <= 0 {
			return 0, wrong(v, fix, "%q is not above zero", v.text)
		}
		if d < least {
			return 0, wrong(v, fmt.Sprintf("give at least %s", least), "%q is below %s", v.text, least)
		}
		return d, nil
	}}
}

// waitKind reads a duration that may be 0, which means none.
func waitKind() kind[time.Duration] {
	k := durationKind(time.Second)
	parse := k.parse
	k.name += ", or 0"
	k.schema["minimum"] = 0
	k.parse = func(p places, v raw) (time.Duration, []fault) {
		if v.text == "0" {
			return 0, nil
		}
		return parse(p, v)
	}
	return k
}

func shareKind() kind[float64] {
	schema := map[string]any{"type": "number", "exclusiveMinimum": 0, "maximum": 1}
	fits := func(f float64) bool { return f > 0 && f <= 1 }
	return numberKind("share above 0, at most 1", "a number above 0 and at most 1", "give a share such as 0.80", schema, fits)
}

func dollarsKind() kind[float64] {
	schema := map[string]any{"type": "number", "minimum": 0}
	fits := func(f float64) bool { return f >= 0 }
	return numberKind("US dollars", "an amount of 0 or more", "give an amount such as 5 or 2.50; 0 means no limit", schema, fits)
}

func numberKind(name, what, fix string, schema map[string]any, check func(float64) bool) kind[float64] {
	format := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	return kind[float64]{name: name, schema: schema, format: format, parse: func(_ places, v raw) (float64, []fault) {
		f, err := strconv.ParseFloat(v.text, 64)
		if err != nil || math.IsInf(f, 0) || !check(f) {
			return 0, wrong(v, fix, "%q is not %s", v.text, what)
		}
		return f, nil
	}}
}

// choiceKind reads one of a few words.
func choiceKind[V ~string](what string, words ...V) kind[V] {
	plain, quoted, enum := make([]string, len(words)), make([]string, len(words)), make([]any, len(words))
	for i, w := range words {
		plain[i], quoted[i], enum[i] = string(w), "`"+string(w)+"`", string(w)
	}
	schema := map[string]any{"enum": enum}
	return kind[V]{name: oneOf(quoted), words: plain, schema: schema, parse: func(_ places, v raw) (V, []fault) {
		if slices.Contains(plain, v.text) {
			return V(v.text), nil
		}
		return "", wrong(v, suggestOr(v.text, plain, "give "+oneOf(plain)), "%q is not %s", v.text, what)
	}}
}

// suggestOr is the fix for an unknown word: the word that was probably meant, or else the general fix.
func suggestOr(word string, words []string, fix string) string {
	if s := Suggest(word, words); s != "" {
		return "did you mean " + s + "?"
	}
	return fix
}

func oneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func momentKind() kind[time.Time] {
	schema := map[string]any{"type": "string"}
	return kind[time.Time]{name: "time", schema: schema, parse: func(_ places, v raw) (time.Time, []fault) {
		for _, layout := range []string{time.RFC3339, "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02"} {
			if t, err := time.Parse(layout, v.text); err == nil {
				return t, nil
			}
		}
		return time.Time{}, wrong(v, "give a time such as 2026-03-14T22:00:00Z", "%q is not a time", v.text)
	}}
}

// The name goes into an argument list, so it must not look like an option.
const modelName = `^[A-Za-z0-9][A-Za-z0-9._:/@\[\]-]*$`

func modelKind() kind[string] {
	return matching("model name", modelName, "a model name", "give a name such as haiku, or a full model id")
}

// A name becomes part of prompts, pages and addresses.
const plainName = `^[a-z0-9][a-z0-9_-]{0,62}$`

// nameKind reads a plain name of something.
func nameKind(name, what string) kind[string] {
	return matching(name, plainName, what, "use small letters, digits, dashes and underscores, at most 63")
}

func handlerIDKind() kind[string] { return nameKind("handler id", "an id of a handler") }

func modeKind() kind[ops.ContextMode] {
	return choiceKind("an escalation mode", ops.ContextResume, ops.ContextHandoff)
}

func independenceKind() kind[ops.Independence] {
	return choiceKind("a degree of independence", ops.IndependenceNone, ops.IndependenceHandler, ops.IndependenceFamily)
}

// Names of hosts are shown in lists and log lines.
const hostName = `^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`

func hostKind() kind[string] {
	return matching("name", hostName, "a name for a host", "use letters, digits, dots, dashes and underscores, at most 63")
}

func listenKind() kind[string] {
	return checked("host:port", "give host:port, such as 127.0.0.1:8080", "not host:port", true, func(text string) bool {
		_, port, err := net.SplitHostPort(text)
		_, failed := strconv.ParseUint(port, 10, 16)
		return err == nil && failed == nil
	})
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

func addressKind() kind[string] {
	return checked("host:port", "give host:port, such as db.example.org:5432", "not host:port", true, func(text string) bool {
		host, port, err := net.SplitHostPort(text)
		n, convErr := strconv.Atoi(port)
		return err == nil && convErr == nil && host != "" && n >= 1 && n <= 65535
	})
}

func tokenKind() kind[string] {
	return checked("text without blanks", "give one word", "the value holds blanks or control characters", false, func(text string) bool {
		return !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	})
}

// The message and the fix for what is not the address of a web server; a URL may hold a password, so it is not repeated.
const (
	notWebURL = "the value is not an http or https URL"
	fixWebURL = "give a URL such as http://127.0.0.1:8000"
)

func webURLKind() kind[string] {
	return checked("http or https URL", fixWebURL, notWebURL, false, webURL)
}

func webURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return false
	}
	n, err := strconv.ParseUint(cmp.Or(u.Port(), "80"), 10, 16)
	return err == nil && n > 0
}

func databaseKind() kind[string] {
	const fix = "give postgres://user:password@host:5432/database, or remove it: then SQLite in the state folder is used"
	return checked("`postgres://` URL", fix, "the value is not a postgres:// URL", false, func(text string) bool {
		u, err := url.Parse(text)
		return err == nil && u.Hostname() != "" && (u.Scheme == "postgres" || u.Scheme == "postgresql")
	})
}

func appriseKind() kind[[]string] {
	one := checked("", "give Apprise URLs such as mailto://… or ntfy://…", "one of the entries is not a URL", false, ops.IsTarget)
	return listOf("URLs, separated by blanks or newlines", strings.Fields, one)
}

// senderKind reads the numbers of people.
func senderKind() kind[[]int64] {
	const fix = "give the numeric id of a user, which claudeops events list shows after a message to the bot"
	one := kind[int64]{schema: map[string]any{"type": "integer", "minimum": 1}, parse: func(_ places, v raw) (int64, []fault) {
		n, err := strconv.ParseInt(v.text, 10, 64)
		if err != nil || n <= 0 {
			return 0, wrong(v, fix, "%q is not the id of a user", v.text)
		}
		return n, nil
	}}
	return listOf("ids, separated by commas", splitAtCommas, one)
}

var variableName = ops.Pattern(`^[A-Za-z_][A-Za-z0-9_]*$`)

func variableNamesKind() kind[[]string] {
	one := kind[string]{schema: singleSchema(), parse: func(_ places, v raw) (string, []fault) {
		ours := strings.HasPrefix(v.text, ownPrefix) && !strings.HasPrefix(v.text, demoPrefix)
		switch {
		case !variableName().MatchString(v.text):
			return "", wrong(v, "give names only, such as DOCKER_HOST", "%q is not the name of an environment variable", v.text)
		case v.text == "HOME" || v.text == "CLAUDE_CONFIG_DIR" || ours:
			return "", wrong(v, "remove it", "%s is set by the supervisor for every agent", v.text)
		case v.text == "CLAUDE_CODE_SIMPLE" || v.text == "CLAUDE_CODE_SAFE_MODE":
			return "", wrong(v, "remove it", "%s switches the hooks off that hold Claude Code to its tier", v.text)
		}
		return v.text, nil
	}}
	return listOf("variable names", splitAtCommas, one)
}

// commandKind reads a program and its arguments as a list, or one text for the shell.
func commandKind() kind[[]string] {
	return kind[[]string]{
		name: "list of words, or text for `/bin/sh -c`", list: true, schema: listSchema(singleSchema()),
		parse: func(_ places, v raw) ([]string, []fault) {
			if !v.list {
				return []string{"/bin/sh", "-c", v.text}, nil
			}
			if len(v.items) == 0 {
				return nil, wrong(v, "give the program and its arguments", "the list is empty")
			}
			return textsOf(v.items), nil
		},
	}
}

// argvKind reads a program and its arguments; only a path of the program itself is made absolute.
func argvKind() kind[[]string] {
	program := programKind()
	return kind[[]string]{
		name: "program and arguments", list: true, schema: listSchema(singleSchema()),
		parse: func(p places, v raw) ([]string, []fault) {
			words := v.entries(whole)
			if len(words) == 0 {
				return nil, wrong(v, "give the program and its arguments, such as [./check.sh]", "the list is empty")
			}
			path, faults := program.parse(p, words[0])
			return append([]string{path}, textsOf(words[1:])...), faults
		},
	}
}

func textsOf(items []raw) []string {
	return ops.Map(items, func(e raw) string { return e.text })
}
