package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/ops"

	"go.yaml.in/yaml/v3"
)

// ownPrefix starts the name of every variable that is ours.
const ownPrefix = "CLAUDEOPS_"

// fileSuffix ends the name of a setting that is read from a file.
const fileSuffix = "file"

// field is one key of the configuration, bound to the struct field that holds its value. Parsing, checks, variables, flags,
// listings, the JSON Schema and the reference page are all made from it.
type field struct {
	key   string
	doc   string // one line
	at    any    // pointer to the struct field, by which checks name it
	env   string // empty: file and flag only
	def   string // read like a given value
	shown string // how the reference describes the default, when def does not

	alone    bool     // its section may also be written as this value alone
	secret   bool     // may also be given as a file, is never shown and never a flag
	required bool     // within an entry
	missing  string   // the message when it is, if not the usual one
	empty    string   // a list must not be empty; this is the fix
	only     []string // the types of entries that have it

	takes  string   // what it accepts, for the reference
	words  []string // the values it accepts, when there are only a few
	isList bool     // a YAML list of single values is accepted
	schema func() map[string]any
	text   func() string
	// A single value is read by read and removed by clear; a list of objects or an object is read by descend.
	read    func(p places, v raw) []fault
	clear   func()
	descend func(l *loader, n *yaml.Node, key string)
	// inner are the fields of an object or of each entry. They are made when asked for: every entry of a list has a table of its own.
	inner func() []field
}

// value binds a key to a struct field that holds a single value, or a plain list.
func value[V any](key string, at *V, k kind[V], doc string) field {
	return field{
		key: key, doc: doc, at: at, takes: k.name, words: k.words, isList: k.list,
		schema: func() map[string]any { return k.schema },
		text:   func() string { return k.show(*at) },
		read: func(p places, v raw) []fault {
			got, faults := k.parse(p, v)
			if faults == nil {
				*at = got
			}
			return faults
		},
		clear: func() {
			var zero V
			*at = zero
		},
	}
}

// list binds a key to a list of objects. Finish looks at an entry whose fields could all be read; an entry with a problem is left
// out of the list.
func list[T any](key string, at *[]T, fields func(*T) []field, finish func(*entry, *T), doc string) field {
	inner := func() []field { return fields(new(T)) }
	// One entry after the other is read into t, so that all of them share one table: it is much larger than what it reads.
	var t, start T
	var bound table
	return field{
		key: key, doc: doc, at: at, takes: "list", inner: inner,
		schema: func() map[string]any { return arrayOf(objectSchema(inner())) },
		text: func() string {
			names := make([]string, len(*at)) // the first field of an entry names it
			for i, item := range *at {
				t := new(T)
				bound := fields(t)
				*t = item
				names[i] = bound[0].text()
			}
			return strings.Join(names, ",")
		},
		descend: func(l *loader, n *yaml.Node, key string) {
			if bound == nil {
				bound = fields(&t)
				start = t
			}
			*at = nil
			for i, item := range l.items(n, key) {
				t = start
				before := len(l.problems.found)
				e := l.readEntry(item, fmt.Sprintf("%s[%d]", key, i), bound)
				if len(l.problems.found) == before && finish != nil {
					finish(e, &t)
				}
				if len(l.problems.found) == before {
					*at = append(*at, t)
				}
			}
		},
	}
}

// object binds a key to an object with fields of its own.
func object(key string, at any, inner []field, doc string) field {
	return field{
		key: key, doc: doc, at: at, takes: "keys and values", inner: func() []field { return inner },
		schema:  func() map[string]any { return objectSchema(inner) },
		text:    func() string { return "" },
		descend: func(l *loader, n *yaml.Node, key string) { l.readEntry(n, key, inner) },
	}
}

// under puts fields into a section.
func under(section string, fields ...field) []field {
	for i := range fields {
		fields[i].key = join(section, fields[i].key)
	}
	return fields
}

func (f field) or(def string) field              { f.def = def; return f }
func (f field) orElse(shown string) field        { f.shown = shown; return f }
func (f field) forSection() field                { f.alone = true; return f }
func (f field) byEnv(name string) field          { f.env = name; return f }
func (f field) hiddenValue() field               { f.secret = true; return f }
func (f field) must() field                      { f.required = true; return f }
func (f field) mustElse(message string) field    { f.required, f.missing = true, message; return f }
func (f field) notEmpty(fix string) field        { f.empty = fix; return f }
func (f field) onlyFor(types ...string) field    { f.only = types; return f }
func (f field) showing(text func() string) field { f.text = text; return f }
func (f field) structured() bool                 { return f.descend != nil }
func (f field) fits(kind string) bool            { return f.only == nil || slices.Contains(f.only, kind) }
func (f field) isBool() bool                     { _, ok := f.at.(*bool); return ok }

// meaning is the description of the field, and for which types of entries it is.
func (f field) meaning() string {
	if f.only == nil {
		return f.doc
	}
	return "`" + strings.Join(f.only, "`, `") + "`: " + strings.ToLower(f.doc[:1]) + f.doc[1:]
}

// flag is the name of the setting's command-line flag.
func (f field) flag() string {
	name := f.env
	name = cmp.Or(name, strings.ReplaceAll(f.key, ".", "_"))
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, ownPrefix)), "_", "-")
}

// fileKey is the key in the file that names the file of a secret.
func (f field) fileKey() string { return f.key + "_" + fileSuffix }

// fileEnv is the variable that names the file of a secret.
func (f field) fileEnv() string {
	if f.env == "" {
		return ""
	}
	return f.env + "_" + strings.ToUpper(fileSuffix)
}

// table is a list of fields with ways to look into it.
type table []field

func (t table) find(key string) (field, bool) {
	return t.first(func(f field) bool { return f.key == key })
}

// findAlone returns the setting that a section stands for when it is written as a single value.
func (t table) findAlone(section string) (field, bool) {
	return t.first(func(f field) bool { return f.alone && strings.HasPrefix(f.key, section+".") })
}

// findFile returns the secret whose file a key names.
func (t table) findFile(key string) (field, bool) {
	return t.first(func(f field) bool { return f.secret && f.fileKey() == key })
}

// bound returns the field of a struct field.
func (t table) bound(at any) field {
	f, _ := t.first(func(f field) bool { return f.at == at })
	return f
}

func (t table) first(is func(field) bool) (field, bool) {
	i := slices.IndexFunc(t, is)
	if i < 0 {
		return field{}, false
	}
	return t[i], true
}

func (t table) keys() []string {
	return ops.Map(t, func(f field) string { return f.key })
}

// children returns the names that can be used in a section; the root is the empty one.
func (t table) children(section string) []string {
	var out []string
	add := func(key string) {
		if section != "" {
			rest, ok := strings.CutPrefix(key, section+".")
			if !ok {
				return
			}
			key = rest
		}
		name, _, _ := strings.Cut(key, ".")
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, f := range t {
		add(f.key)
		if f.secret {
			add(f.fileKey())
		}
	}
	return out
}

// elsewhere finds the full key of a name that was put into the wrong section, or spelled like its variable.
func (t table) elsewhere(name string) string {
	for _, f := range t {
		if strings.EqualFold(f.env, ownPrefix+name) || strings.EqualFold(f.env, name) {
			return f.key
		}
	}
	for _, f := range t {
		if strings.HasSuffix(f.key, "."+name) && !strings.HasPrefix(f.key, "tiers.") {
			return f.key
		}
	}
	return ""
}

// variables returns the name of every environment variable that is read.
func (t table) variables() []string {
	var out []string
	for _, f := range t {
		if f.env == "" {
			continue
		}
		out = append(out, f.env)
		if f.secret {
			out = append(out, f.fileEnv())
		}
	}
	return out
}
