package config

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
	"gopkg.in/yaml.v3"
)

// configVariable names the configuration file.
const configVariable = ownPrefix + "CONFIG"

// demoPrefix starts what the demo tells its agents; of all our variables only these may be passed on to an agent.
const demoPrefix = ownPrefix + "DEMO_"

// layer is what one source gives: values by key, with their origins.
type layer struct {
	values  map[string]any
	origins map[string]origin
}

func newLayer() layer { return layer{values: map[string]any{}, origins: map[string]origin{}} }

// loader reads the sources. Every value that is given is checked, also one that a stronger source hides: it
// would otherwise break a later start.
type loader struct {
	in       Input
	vars     map[string]string
	places   places
	table    table
	problems *problemList
	file     *yamlFile
	sections map[string]*yaml.Node // services and environments, read later
	marks    map[string]origin     // where the fields of structured settings stand
	unknown  []string              // variables that look like ours and are not
}

// take checks one value and adds it to the layer.
func (l *loader) take(into layer, s setting, v raw) {
	if _, twice := into.values[s.key]; twice {
		l.problems.add(v.at, s.key, "the value is given here and as a file", "keep one of them")
		return
	}
	if v.text == "" && !v.list {
		if s.def != "" {
			l.problems.add(v.at, s.key, "the value is empty", "give a value, or remove it to use "+s.def)
			return
		}
		// An optional value can be cleared by a stronger source.
		into.values[s.key] = nil
		into.origins[s.key] = v.at
		return
	}
	value, faults := s.kind.parse(l.places, v)
	if faults != nil {
		l.problems.addFaults(s.key, faults)
		return
	}
	into.values[s.key] = value
	into.origins[s.key] = v.at
}

// takeEither checks a value that may stand under two keys of the file, which then must agree.
func (l *loader) takeEither(into layer, s setting, v raw) {
	first, given := into.values[s.key]
	if !given || s.also == "" {
		l.take(into, s, v)
		return
	}
	second, faults := s.kind.parse(l.places, v)
	if faults != nil {
		l.problems.addFaults(s.key, faults)
		return
	}
	if first != second {
		l.problems.add(v.at, s.key, fmt.Sprintf("%v here contradicts %v in line %d: %s and %s are the same setting", second, first, into.origins[s.key].line, s.key, s.also),
			"keep one of them")
	}
}

// takeFile reads a secret from the file that v names.
func (l *loader) takeFile(into layer, s setting, v raw) {
	if v.text == "" {
		return
	}
	fix := "give the path of a file that holds the value"
	path, faults := l.places.resolve(v)
	if faults != nil {
		l.problems.addFaults(s.key, faults)
		return
	}
	text, err := readText(path)
	if err != nil {
		l.problems.add(v.at, s.key, err.Error(), fix)
		return
	}
	v.text = strings.TrimSpace(text)
	l.take(into, s, v)
}

// defaults fills what no other layer gives.
func (l *loader) defaults(given []layer) layer {
	out := newLayer()
	for _, s := range l.table {
		isGiven := slices.ContainsFunc(given, func(g layer) bool { _, ok := g.values[s.key]; return ok })
		if s.def != "" && !isGiven {
			l.take(out, s, raw{text: s.def, dir: l.in.Dir})
		}
	}
	return out
}

func (l *loader) fromFile() layer {
	out := newLayer()
	l.file = openYAML(l.in, l.vars, l.places, l.problems)
	if l.file != nil && l.file.root != nil {
		l.walk(out, l.file.root, "")
	}
	return out
}

// walk reads one section of the file and those below it.
func (l *loader) walk(out layer, n *yaml.Node, section string) {
	for _, p := range l.file.pairs(n, section, l.table.children(section), l.table.elsewhere) {
		key := join(section, p.name)
		if s, ok := l.table.find(key); ok {
			if s.structured {
				l.sections[key] = p.value
				out.origins[key] = l.file.at(p.key)
			} else if v, usable := l.file.raw(p.value, key, s.kind.list); usable {
				l.takeEither(out, s, v)
			}
			continue
		}
		if s, ok := l.table.findAlso(key); ok {
			if v, usable := l.file.raw(p.value, key, s.kind.list); usable {
				l.takeEither(out, s, v)
			}
			continue
		}
		if s, ok := l.table.findFile(key); ok {
			if v, usable := l.file.raw(p.value, key, false); usable {
				l.takeFile(out, s, v)
			}
			continue
		}
		l.walk(out, p.value, key)
	}
}

// setForChildren are the variables of ours that the supervisor sets for the processes it starts; they are no
// settings, and may be present when one of those runs claudeops.
func setForChildren(name string) bool {
	switch name {
	case ownPrefix + "TIER", ownPrefix + "CYCLE_ID", ownPrefix + "SESSION_ID", ownPrefix + "SESSION_KEY",
		ownPrefix + "ROLE", ownPrefix + "HANDLER":
		return true
	}
	return strings.HasPrefix(name, ownPrefix+"FAILPOINT") || strings.HasPrefix(name, demoPrefix)
}

func (l *loader) fromEnvironment() layer {
	out := newLayer()
	known := append(l.table.variables(), configVariable, serverVariable)
	given := func(name string) (raw, bool) {
		// An empty variable counts as not set, as compose files write those they leave out.
		text := strings.TrimSpace(l.vars[name])
		return raw{at: origin{source: sourceEnvironment, name: name}, text: text, dir: l.in.Dir}, text != ""
	}
	for _, s := range l.table {
		if s.env == "" {
			continue
		}
		if v, ok := given(s.env); ok {
			l.take(out, s, v)
		}
		if !s.secret {
			continue
		}
		if v, ok := given(s.fileEnv()); ok {
			l.takeFile(out, s, v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.vars)) {
		if !strings.HasPrefix(name, ownPrefix) || slices.Contains(known, name) || setForChildren(name) {
			continue
		}
		// A slip of the pen must not go unnoticed; a variable that is something else's must not stop us.
		if s := slip(name, known); s != "" {
			l.problems.add(origin{source: sourceEnvironment, name: name}, "", "unknown variable", "did you mean "+s+"?")
			continue
		}
		l.unknown = append(l.unknown, name)
	}
	return out
}

// slip returns the variable that an unknown one is most likely a misspelling of.
func slip(name string, known []string) string {
	word := strings.TrimPrefix(name, ownPrefix)
	for _, k := range known {
		rest, ours := strings.CutPrefix(k, ownPrefix)
		if ours && editDistance(strings.ToLower(word), strings.ToLower(rest)) <= max(1, len(word)/4) {
			return k
		}
	}
	return ""
}

func (l *loader) fromFlags() layer {
	out := newLayer()
	for _, key := range slices.Sorted(maps.Keys(l.in.Flags)) {
		v := raw{text: strings.TrimSpace(l.in.Flags[key]), dir: l.in.Dir}
		if s, ok := l.table.findFile(key); ok {
			v.at = origin{source: sourceFlag, name: s.flag() + "-" + fileSuffix}
			l.takeFile(out, s, v)
			continue
		}
		s, ok := l.table.find(key)
		v.at = origin{source: sourceFlag, name: s.flag()}
		switch {
		case !ok:
			v.at.name = strings.NewReplacer(".", "-", "_", "-").Replace(key)
			l.problems.add(v.at, key, "unknown key", unknownFix(key, "", l.keys(), l.table.elsewhere))
		case s.structured:
			l.problems.add(v.at, key, "the value does not fit on a command line", "give it in the configuration file")
		case s.secret:
			l.problems.add(v.at, key, "a secret on the command line can be read by every process",
				fmt.Sprintf("give it as %s, or name its file with --%s-%s", cmp.Or(s.env, s.key+" in the configuration file"), s.flag(), fileSuffix))
		default:
			l.take(out, s, v)
		}
	}
	return out
}

func (l *loader) keys() []string {
	var out []string
	for _, s := range l.table {
		out = append(out, s.key)
	}
	return out
}

// merge puts the layers over each other, weakest first, and tells for each key where its value came from.
func merge(layers []layer) (*koanf.Koanf, map[string]origin, error) {
	k := koanf.New(".")
	origins := map[string]origin{}
	for _, layer := range layers {
		if err := k.Load(confmap.Provider(layer.values, "."), nil); err != nil {
			return nil, nil, fmt.Errorf("merge configuration: %w", err)
		}
		maps.Copy(origins, layer.origins)
	}
	return k, origins, nil
}

// get returns the value of a key in its type, or the zero value.
func get[T any](k *koanf.Koanf, key string) T {
	v, _ := k.Get(key).(T)
	return v
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
	if err != nil {
		return "", fmt.Errorf("find working folder: %w", err)
	}
	return abs, nil
}
