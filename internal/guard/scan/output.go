package scan

import (
	"slices"
	"strings"
)

// Kind is what is known of the output of commands.
type Kind int

// The kinds of output. Words of names cannot be options: they start with a letter or digit.
const (
	Anything Kind = iota
	Number        // one number
	Digits        // digits, or nothing
	Names         // plain names, one on each line
)

// Output says what a pipeline prints, by the words of its commands.
func Output(stages [][]string) Kind {
	last := stages[len(stages)-1]
	if printsNumber(last) {
		return Number
	}
	if last[0] == "tr" && len(last) == 3 && (last[1] == "-dc" || last[1] == "-cd") && (last[2] == "0-9" || last[2] == "[:digit:]") {
		return Digits
	}
	if !printsNames(stages[0]) && (len(stages) < 2 || !printsTable(stages[0]) || !firstColumn(stages[1])) {
		return Anything
	}
	for i, words := range stages[1:] {
		if !keepsLines(words) && (i > 0 || !firstColumn(words)) {
			return Anything
		}
	}
	return Names
}

// given1 reports an option among words, alone or in a bundle of letters.
func given1(words []string, letter byte, long ...string) bool {
	return slices.ContainsFunc(words[1:], func(w string) bool {
		if slices.Contains(long, w) {
			return true
		}
		return len(w) > 1 && w[0] == '-' && w[1] != '-' && strings.IndexByte(w, letter) > 0
	})
}

// printsNumber reports commands that print one number and nothing else.
func printsNumber(args []string) bool {
	has := func(want ...string) bool {
		return slices.ContainsFunc(args[1:], func(a string) bool { return slices.Contains(want, a) })
	}
	switch args[0] {
	case "wc":
		return len(args) == 2 && has("-l", "-c", "-w", "-m")
	case "nproc":
		return len(args) == 1
	case "date":
		return has("+%s", "+%H", "+%M", "+%S", "+%d", "+%j", "+%Y", "+%u", "+%N")
	case "grep":
		return len(args) == 3 && has("-c", "--count", "-ci", "-ic")
	case "curl":
		return has("/dev/null") && has("%{http_code}", "%{response_code}")
	case "id":
		return len(args) == 2 && has("-u", "-g")
	case "stat":
		return len(args) == 4 && has("-c", "--format") && has("%s", "%Y", "%X", "%Z", "%a", "%u", "%g", "%h")
	}
	return false
}

// printsNames reports commands whose output is plain names: ids and names that engines, clusters and git hand out start
// with a letter or digit.
func printsNames(args []string) bool {
	verb := strings.Join(args[:min(2, len(args))], " ")
	switch args[0] {
	case "docker", "docker-compose", "podman":
		return dockerNames(args)
	case "kubectl":
		return len(args) > 2 && args[1] == "get" && kubeNames(args)
	case "pgrep":
		return !given1(args, 'a', "--list-full") && !given1(args, 'l', "--list-name") && !given1(args, 'd', "--delimiter")
	case "seq", "nproc", "whoami", "pidof", "hostname":
		return !given1(args, 'a', "--list-full") && !given1(args, 'l', "--list-name") && !given1(args, 's') && !given1(args, 'f', "--format")
	case "uname":
		return true
	case "date":
		last := args[len(args)-1]
		return len(last) > 1 && last[0] == '+' && last[1] != '-' && last[1] != ' '
	case "git":
		return verb == "git rev-parse" && len(args) > 2 || verb == "git branch" && slices.Contains(args, "--show-current")
	}
	return false
}

func dockerNames(args []string) bool {
	listing := slices.ContainsFunc(args, func(a string) bool {
		return slices.Contains([]string{"ps", "ls", "list", "images"}, a)
	})
	formatted := slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--format") })
	if listing && given1(args, 'q', "--quiet", "--services") && !formatted {
		return true
	}
	if slices.Contains(args, "config") && slices.Contains(args, "--services") {
		return true
	}
	for i, a := range args {
		format, joined := strings.CutPrefix(a, "--format=")
		if a == "--format" && i+1 < len(args) {
			format, joined = args[i+1], true
		}
		if joined {
			return listing && slices.Contains([]string{
				"{{.Names}}", "{{.ID}}", "{{.Name}}", "{{ .Names }}", "{{ .ID }}", "{{.Service}}",
				"{{.Repository}}",
			}, format)
		}
	}
	return false
}

func kubeNames(args []string) bool {
	for i, a := range args {
		format, joined := strings.CutPrefix(a, "-o")
		if a == "-o" || a == "--output" {
			if i+1 == len(args) {
				return false
			}
			format, joined = args[i+1], true
		} else if long, ok := strings.CutPrefix(a, "--output="); ok {
			format, joined = long, true
		}
		if joined {
			format = strings.TrimPrefix(format, "=")
			return format == "name" || strings.HasPrefix(format, "jsonpath={.items[") && strings.HasSuffix(format, "].metadata.name}") ||
				format == "jsonpath={.metadata.name}" || format == "custom-columns=:metadata.name" || format == "custom-columns=:.metadata.name"
		}
	}
	return false
}

// printsTable reports commands whose first column is a plain name.
func printsTable(args []string) bool {
	if len(args) < 2 || given1(args, 'o', "--output") || slices.ContainsFunc(args, func(a string) bool {
		return strings.HasPrefix(a,
			"--format")
	}) {
		return false
	}
	return args[0] == "docker" && (args[1] == "ps" || args[1] == "images") || args[0] == "kubectl" && args[1] == "get"
}

// firstColumn reports awk '{print $1}' and cut -d' ' -f1.
func firstColumn(args []string) bool {
	if args[0] != "awk" || len(args) != 2 {
		return false
	}
	program := strings.ReplaceAll(args[1], " ", "")
	for _, head := range []string{"", "NR>1", "NR==2", "NR!=1"} {
		if program == head+"{print$1}" {
			return true
		}
	}
	if body, ok := strings.CutSuffix(program, "/{print$1}"); ok && strings.HasPrefix(body, "/") && !strings.Contains(body[1:], "/") {
		return true
	}
	return false
}

// keepsLines reports filters that pass lines on as they are.
func keepsLines(args []string) bool {
	switch args[0] {
	case "head", "tail", "sort":
		return !slices.ContainsFunc(args[1:], func(a string) bool {
			return strings.HasPrefix(a, "-c") || strings.HasPrefix(a, "--bytes") || !strings.HasPrefix(a, "-") && !digits(a)
		})
	case "uniq":
		return len(args) == 1
	case "grep":
		return !given1(args, 'o', "--only-matching") && !given1(args, 'n', "--line-number") && !given1(args, 'A') && !given1(args, 'B') &&
			!given1(args, 'C') && len(args) <= 3
	case "xargs", "cat":
		return len(args) == 1
	}
	return false
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

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
