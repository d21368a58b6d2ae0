package config

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"claudeops/internal/ops"
)

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
	const fix = "give host:port, such as 127.0.0.1:8080"
	return kind[string]{name: "host:port", schema: singleSchema(), parse: func(_ places, v raw) (string, []fault) {
		_, port, err := net.SplitHostPort(v.text)
		if err != nil {
			return "", wrong(v, fix, "%q is not host:port", v.text)
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return "", wrong(v, fix, "%q is not a port number", port)
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
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}

func databaseKind() kind[string] {
	const fix = "give postgres://user:password@host:5432/database, or remove it: then SQLite in the state folder is used"
	return checked("`postgres://` URL", fix, "the value is not a postgres:// URL", false, func(text string) bool {
		u, err := url.Parse(text)
		return err == nil && u.Hostname() != "" && (u.Scheme == "postgres" || u.Scheme == "postgresql")
	})
}

func appriseKind() kind[[]string] {
	return kind[[]string]{
		name: "URLs, separated by blanks or newlines", list: true, schema: listSchema(singleSchema()),
		parse: func(_ places, v raw) ([]string, []fault) {
			var urls []string
			var faults []fault
			for i, e := range v.entries(strings.Fields) {
				scheme, rest, ok := strings.Cut(e.text, "://")
				if !ok || scheme == "" || rest == "" || strings.ContainsFunc(e.text, unicode.IsSpace) {
					// An entry is a secret as a whole, so the message gives its number only.
					faults = append(faults, wrong(e, "give Apprise URLs such as mailto://… or ntfy://…", "entry %d is not a URL", i+1)...)
					continue
				}
				urls = append(urls, e.text)
			}
			return urls, faults
		},
	}
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
	k := listOf("ids, separated by commas", splitAtCommas, one)
	k.format = func(ids []int64) string {
		words := make([]string, len(ids))
		for i, id := range ids {
			words[i] = strconv.FormatInt(id, 10)
		}
		return strings.Join(words, ",")
	}
	return k
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
	out := make([]string, len(items))
	for i, e := range items {
		out[i] = e.text
	}
	return out
}
