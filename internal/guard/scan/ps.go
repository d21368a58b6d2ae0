package scan

import (
	"slices"
	"strings"
)

const (
	psSelects = "AaedHLTw" // all processes, threads, wide output
	psColumns = "fFljy"    // more columns; not together with columns by name
	psThreads = "LT"       // not together with a tree
)

// psArguments are the arguments of ps, sorted.
type psArguments struct {
	letters string   // of all short options without a value
	columns []string // of -o, -O and --format
	forest  bool
	other   bool // something else was given
}

// PlainPs reports whether the arguments of ps list processes without their environment. A bare e shows it. The option -e does not, but if
// ps cannot use the options together it reads them again without their dashes (ps -efx), so only forms that it can use are plain.
func PlainPs(words []string) bool {
	if len(words) == 1 && (words[0] == "-aux" || only(words[0], "aufjlrvwx")) {
		return true
	}
	if len(words) > 1 && only(words[0], "aufjlrvwx") {
		p := sortPs(words[1:])
		return !p.other && !p.forest && p.letters == "" && p.columns == nil // only sorted or cut
	}
	p := sortPs(words)
	switch {
	case p.other, p.letters != "" && !only(p.letters, psSelects+psColumns), !plainColumns(p.columns):
		return false
	case len(p.columns) > 0 && strings.ContainsAny(p.letters, psColumns):
		return false
	case strings.Contains(p.letters, "y") && !strings.Contains(p.letters, "l"):
		return false
	case strings.ContainsAny(p.letters, psThreads) && (p.forest || strings.Contains(p.letters, "H")):
		return false
	default:
		return !strings.Contains(p.letters, "L") || !strings.Contains(p.letters, "T")
	}
}

func sortPs(words []string) (p psArguments) {
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		// value is the rest of the word, or the next word.
		value := func(rest string) string {
			if rest == "" && len(words) > 0 {
				rest, words = words[0], words[1:]
			}
			return rest
		}
		if long, ok := strings.CutPrefix(word, "--"); ok {
			p.long(long, value)
			continue
		}
		letters, ok := strings.CutPrefix(word, "-")
		if !ok || letters == "" {
			p.other = true
		}
		if i := strings.IndexAny(letters, "oO"); i >= 0 {
			p.columns = append(p.columns, strings.Split(value(letters[i+1:]), ",")...)
			letters = letters[:i]
		}
		p.letters += letters
	}
	return p
}

func (p *psArguments) long(option string, value func(string) string) {
	name, rest, _ := strings.Cut(option, "=")
	switch name {
	case "forest":
		p.forest, p.other = true, p.other || rest != ""
	case "headers", "no-headers", "no-heading":
		p.other = p.other || rest != ""
	case "format":
		p.columns = append(p.columns, strings.Split(value(rest), ",")...)
	case "sort":
		keys := strings.Split(value(rest), ",")
		p.other = p.other || slices.ContainsFunc(keys, func(k string) bool { return !isColumn(strings.TrimLeft(k, "+-")) })
	case "cols", "columns", "width":
		p.other = p.other || !only(value(rest), "0123456789")
	default:
		p.other = true
	}
}

// plainColumns reports whether none of the columns shows the environment. A column can have a width (pid:10) and an empty title (pid=).
func plainColumns(columns []string) bool {
	return !slices.ContainsFunc(columns, func(c string) bool {
		name, width, wide := strings.Cut(strings.TrimSuffix(c, "="), ":")
		return !isColumn(name) || wide && !only(width, "0123456789") || strings.HasPrefix(name, "env")
	})
}

func isColumn(name string) bool {
	return only(strings.TrimPrefix(name, "%"), "abcdefghijklmnopqrstuvwxyz_0123456789")
}

// only reports whether a text has at least one character, and only these.
func only(text, these string) bool { return text != "" && strings.Trim(text, these) == "" }
