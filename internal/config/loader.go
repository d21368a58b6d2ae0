package config

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"claudeops/internal/ops"

	"go.yaml.in/yaml/v3"
)

// configVariable names the configuration file.
const configVariable = ownPrefix + "CONFIG"

// demoPrefix starts what the demo tells its agents; of all our variables only these may be passed on to an agent.
const demoPrefix = ownPrefix + "DEMO_"

// loader reads the sources into the struct fields of a table, the weakest source first. Every value that is given is checked, also
// one that a stronger source replaces: it would otherwise break a later start.
type loader struct {
	in          Input
	vars        map[string]string
	places      places
	table       table
	origins     map[string]origin // by key; also of the fields of list entries
	problems    *problemList
	fileName    string                // of the configuration file, as the operator knows it; empty: there is none
	fileDir     string                // what paths in it are relative to
	digest      string                // of its content
	pending     map[string]*yaml.Node // lists of objects, which are read when all single values are known
	unknown     []string              // variables that look like ours and are not
	secretFiles []string              // from which secrets were read
}

// load reads all sources.
func (l *loader) load() {
	l.fromFile()
	l.fromEnvironment()
	l.fromFlags()
	for _, f := range l.table {
		// A default that needs a home folder is only read where no value is given.
		if _, given := l.origins[f.key]; f.def != "" && !given {
			l.problems.addFaults(f.key, f.read(l.places, raw{text: f.def, dir: l.in.Dir}))
		}
	}
	for _, f := range l.table {
		if n, ok := l.pending[f.key]; ok {
			l.readNode(f, n, f.key)
		}
	}
}

// refuse reports a problem of a setting where it was set.
func (l *loader) refuse(at any, fix, format string, args ...any) {
	f := l.table.bound(at)
	l.problems.add(l.origins[f.key], f.key, fmt.Sprintf(format, args...), fix)
}

// given are the keys that one source has set.
type given map[string]bool

// take checks one value and puts it into its struct field.
func (l *loader) take(seen given, f field, v raw) {
	if urls, several := f.at.(*[]string); seen[f.key] && several { // those of the file come on top of those that are given here
		before := *urls
		if faults := f.read(l.places, v); faults != nil {
			l.problems.addFaults(f.key, faults)
		}
		*urls = slices.Concat(before, *urls)
		return
	}
	if seen[f.key] {
		l.problems.add(v.at, f.key, "the value is given here and as a file", "keep one of them")
		return
	}
	if v.text == "" && !v.list {
		if f.def != "" {
			l.problems.add(v.at, f.key, "the value is empty", "give a value, or remove it to use "+f.def)
			return
		}
		f.clear() // an optional value can be removed by a stronger source
	} else if faults := f.read(l.places, v); faults != nil {
		l.problems.addFaults(f.key, faults)
		return
	}
	seen[f.key] = true
	l.origins[f.key] = v.at
}

// takeFile reads a secret from the file that v names.
func (l *loader) takeFile(seen given, f field, v raw) {
	if v.text == "" {
		return
	}
	text, faults := readFrom(l.places, v, "give the path of a file that holds the value")
	if faults != nil {
		l.problems.addFaults(f.key, faults)
		return
	}
	if path, faults := l.places.resolve(v); faults == nil {
		l.secretFiles = append(l.secretFiles, path)
	}
	v.text = strings.TrimSpace(text)
	l.take(seen, f, v)
}

func (l *loader) fromFile() {
	if root := l.openFile(); root != nil {
		l.walk(given{}, root, "")
	}
}

// walk reads one section of the file and those below it.
func (l *loader) walk(seen given, n *yaml.Node, section string) {
	for _, p := range l.pairs(n, section, l.table.children(section), l.table.elsewhere) {
		key := join(section, p.name)
		f, ok := l.table.find(key)
		if ok && f.structured() {
			l.pending[key] = p.value
			l.origins[key] = l.position(p.key)
			continue
		}
		if ok {
			if v, usable := l.raw(p.value, key, f.isList); usable {
				l.take(seen, f, v)
			}
			continue
		}
		if f, ok := l.table.findAlone(key); ok && follow(p.value).Kind == yaml.ScalarNode && !null(follow(p.value)) {
			if v, usable := l.raw(p.value, f.key, false); usable {
				l.take(seen, f, v)
			}
			continue
		}
		if f, ok := l.table.findFile(key); ok {
			if v, usable := l.raw(p.value, key, false); usable {
				l.takeFile(seen, f, v)
			}
			continue
		}
		l.walk(seen, p.value, key)
	}
}

// setForChildren are the variables of ours that the supervisor sets for the processes it starts. They are not settings, and may be
// present when one of those processes runs claudeops.
func setForChildren(name string) bool {
	switch name {
	case ownPrefix + "TIER", ownPrefix + "CYCLE_ID", ownPrefix + "SESSION_ID", ownPrefix + "SESSION_KEY",
		ownPrefix + "ROLE", ownPrefix + "HANDLER":
		return true
	}
	return strings.HasPrefix(name, ownPrefix+"FAILPOINT") || strings.HasPrefix(name, demoPrefix)
}

func (l *loader) fromEnvironment() {
	seen := given{}
	known := append(l.table.variables(), configVariable, serverVariable)
	variable := func(name string) (raw, bool) {
		// An empty variable counts as not set, as compose files write those they leave out.
		text := strings.TrimSpace(l.vars[name])
		return raw{at: origin{source: sourceEnvironment, name: name}, text: text, dir: l.in.Dir}, text != ""
	}
	for _, f := range l.table {
		if f.env == "" {
			continue
		}
		if v, ok := variable(f.env); ok {
			l.take(seen, f, v)
		}
		if v, ok := variable(f.fileEnv()); ok && f.secret {
			l.takeFile(seen, f, v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.vars)) {
		if !strings.HasPrefix(name, ownPrefix) || slices.Contains(known, name) || setForChildren(name) {
			continue
		}
		// A misspelling must not go unnoticed; a variable of another program must not stop us.
		if s := misspelled(name, known); s != "" {
			l.problems.add(origin{source: sourceEnvironment, name: name}, "", "unknown variable", "did you mean "+s+"?")
			continue
		}
		l.unknown = append(l.unknown, name)
	}
}

// misspelled returns the variable that an unknown one is most likely a misspelling of.
func misspelled(name string, known []string) string {
	word := strings.TrimPrefix(name, ownPrefix)
	for _, k := range known {
		rest, ours := strings.CutPrefix(k, ownPrefix)
		if ours && editDistance(strings.ToLower(word), strings.ToLower(rest)) <= max(1, len(word)/4) {
			return k
		}
	}
	return ""
}

func (l *loader) fromFlags() {
	seen := given{}
	for _, key := range slices.Sorted(maps.Keys(l.in.Flags)) {
		v := raw{text: strings.TrimSpace(l.in.Flags[key]), dir: l.in.Dir}
		if f, ok := l.table.findFile(key); ok {
			v.at = origin{source: sourceFlag, name: f.flag() + "-" + fileSuffix}
			l.takeFile(seen, f, v)
			continue
		}
		f, ok := l.table.find(key)
		v.at = origin{source: sourceFlag, name: f.flag()}
		switch {
		case !ok:
			v.at.name = strings.NewReplacer(".", "-", "_", "-").Replace(key)
			l.problems.add(v.at, key, "unknown key", unknownFix(key, "", l.table.keys(), l.table.elsewhere))
		case f.structured():
			l.problems.add(v.at, key, "the value does not fit on a command line", "give it in the configuration file")
		case f.secret:
			elsewhere := cmp.Or(f.env, key+" in the configuration file")
			l.problems.add(v.at, key, "a secret on the command line can be read by every process",
				fmt.Sprintf("give it as %s, or name its file with --%s-%s", elsewhere, f.flag(), fileSuffix))
		default:
			l.take(seen, f, v)
		}
	}
}

// variables turns NAME=value pairs into a map; the last of a name holds.
func variables(environ []string) map[string]string {
	out := make(map[string]string, len(environ))
	for _, e := range environ {
		if name, value, ok := strings.Cut(e, "="); ok && name != "" {
			out[name] = value
		}
	}
	return out
}

// absoluteDir is the working folder as an absolute path.
func absoluteDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	return ops.Returning(abs, err, "find working folder")
}
